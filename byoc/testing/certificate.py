"""The certificate of a backend: what was tried, what was found, on which machine, with which versions; JSON and a page.

The JSON form has a schema with a number; a newer byoc reads older ones, and refuses what is newer than itself.
"""

from __future__ import annotations

import itertools
import json
import os
import textwrap
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from byoc.base.counted import counted
from byoc.errors import InputError
from byoc.runtime.artefact.artifact import replace_file
from byoc.runtime.files.whole_file import read_text
from byoc.testing.causes import by_cause
from byoc.testing.checks import CRASHED, DEVIATES, FAILED, LATE, SLOW, UNTRIED, WRONG, Finding

SCHEMA = 2  # 2: crashed cases, deviations, what failed when asked, what was left unfinished, reasons of refusals
RIGHT = "right"
VERDICTS = (RIGHT, DEVIATES, WRONG, CRASHED, LATE, FAILED, SLOW, UNTRIED)  # in the order in which they are reported
WORST = (WRONG, CRASHED, LATE, FAILED, SLOW, UNTRIED, DEVIATES, RIGHT)
FAILURES = (WRONG, CRASHED, LATE, FAILED)
MOST_SHOWN = 20  # causes of failures that are printed; all cases stand in the file
MOST_NAMES = 100  # operators that are named in one line
WIDTH = 120
WHAT = ("operator or pattern", "operators and patterns")
_FIELDS = (
    *("schema", "backend", "versions", "machine", "asked", "deviations", "cases", "smallest", "speed", "notes"),
    *("unfinished", "refusals"),
)


@dataclass(frozen=True)
class CaseResult:
    """What became of one case: its name, the operator or pattern that it tests, its kind, what checks found."""

    name: str
    operator: str
    kind: str
    findings: tuple[Finding, ...] = ()

    @property
    def verdict(self) -> str:
        """The worst of what was found; ``right`` where nothing was."""
        found = {f.verdict for f in self.findings}
        return next((v for v in WORST if v in found), RIGHT)


@dataclass(frozen=True)
class SmallestCase:
    """The smallest case of a failure: the function as text, its inputs, and what is wrong with it.

    *file* is where the case was written, if it was; ``byoc bisect --replay`` runs it.
    """

    operator: str
    check: str
    verdict: str
    text: str
    finding: str
    inputs: tuple[str, ...] = ()
    file: str = ""


@dataclass(frozen=True)
class SpeedRow:
    """Milliseconds of a case or a model by the backend and by the host alone."""

    name: str
    backend_ms: float
    host_ms: float

    @property
    def ratio(self) -> float:
        """The backend's time over the host's."""
        return self.backend_ms / self.host_ms if self.host_ms else 0.0


@dataclass(frozen=True)
class Certificate:
    """What :func:`certify` found. ``str()`` is what the command prints; ``ok`` is whether nothing failed.

    *unfinished* says what ended it before everything was tried; empty where nothing did. *deviations* are the corners
    in which the backend itself says to compute otherwise, by their codes; what differs there alone is not wrong but
    ``deviates``. *refusals* are the reasons for which the backend takes no more, those that it gave most often first.
    """

    backend: str
    versions: Mapping[str, str]
    machine: Mapping[str, str]
    asked: Mapping[str, object]
    cases: tuple[CaseResult, ...]
    smallest: tuple[SmallestCase, ...] = ()
    speed: tuple[SpeedRow, ...] = ()
    notes: tuple[str, ...] = ()
    unfinished: str = ""
    deviations: Mapping[str, str] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything was tried that could be, and nothing failed (``failures``)."""
        return any(c.verdict != UNTRIED for c in self.cases) and not self.failures and not self.unfinished

    @property
    def failures(self) -> tuple[CaseResult, ...]:
        """The cases that are wrong, crashed, were refused late, and what failed when asked."""
        return tuple(c for c in self.cases if c.verdict in FAILURES)

    def counts(self) -> dict[str, int]:
        """How many cases have which verdict."""
        found = Counter(c.verdict for c in self.cases)
        return {verdict: found[verdict] for verdict in VERDICTS}

    @property
    def covered(self) -> tuple[str, ...]:
        """The operators and patterns of which something was tried, and all is right but for declared deviations."""
        bad = {c.operator for c in self.failures}
        return tuple(dict.fromkeys(c.operator for c in self.cases if c.verdict != UNTRIED and c.operator not in bad))

    @property
    def untried(self) -> dict[str, str]:
        """The operators and patterns of which nothing was tried, each with why."""
        tried = {c.operator for c in self.cases if c.verdict != UNTRIED}
        found: dict[str, str] = {}
        for case in self.cases:
            if case.operator not in tried:
                found.setdefault(case.operator, case.findings[0].text)
        return found

    @property
    def kinds(self) -> dict[str, int]:
        """How many cases of which kind were tried."""
        return dict(Counter(c.kind for c in self.cases if c.verdict not in (UNTRIED, FAILED)))

    def to_json(self) -> dict[str, object]:
        """The certificate as values that ``json.dumps`` takes."""
        found = asdict(self)
        return {
            "schema": SCHEMA,
            **{name: found[name] for name in _FIELDS[1:]},
            "summary": {
                "ok": self.ok,
                "counts": self.counts(),
                "kinds": self.kinds,
                "covered": list(self.covered),
                "untried": self.untried,
            },
        }

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON form to *path*, and the page beside it, with the ending ``.md``.

        Raises UserError where the place cannot be written.
        """
        target, text = Path(path), json.dumps(self.to_json(), indent=1) + "\n"
        replace_file(target, lambda file: file.write(text.encode()))
        replace_file(target.with_suffix(".md"), lambda file: file.write(self.markdown().encode()))
        return target

    def changes(self, old: Certificate) -> Changes:
        """What is otherwise than in an *old* certificate."""
        before, now = ({c.name: c.verdict for c in cert.cases} for cert in (old, self))
        return Changes(
            tuple(f"{n}: {before[n]} -> {v}" for n, v in now.items() if n in before and before[n] != v),
            tuple(n for n in now if n not in before),
            tuple(n for n in before if n not in now),
        )

    def __str__(self) -> str:
        device = self.machine.get("device")
        lines = [self._title(), *([f"device: {device}"] if device else []), "", *self._summary()]
        lines += [f"unfinished: {self.unfinished}"] if self.unfinished else []
        for verdict in FAILURES:
            lines += self._failure_lines(verdict)
        lines += self._deviations()
        slow = [r for r in self.speed if r.ratio > 1]
        lines += [f"slow: {len(slow)} of {len(self.speed)} are slower than on the host"] if self.speed else []
        lines += [
            f"  {r.name}: {r.backend_ms:.3g} ms, on the host {r.host_ms:.3g} ms, {r.ratio:.2f} times" for r in slow
        ]
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def _title(self) -> str:
        versions = ", ".join(f"{name} {number}" for name, number in self.versions.items())
        return f"{self.backend}: {self._state()} ({versions})"

    def _state(self) -> str:
        count = len(self.deviations)
        but = f" with {count} declared deviation{'s' if count > 1 else ''}" if count and self.ok else ""
        return f"{'certified' if self.ok else 'not certified'}{but}"

    def _deviations(self) -> list[str]:
        """What the backend says to compute otherwise, and where that was seen."""
        if not self.deviations:
            return []
        lines = [f"declared deviation {code}: {text}" for code, text in self.deviations.items()]
        seen = [c for c in self.cases if any(f.verdict == DEVIATES for f in c.findings)]
        where = ", ".join(dict.fromkeys(c.operator for c in seen))
        return [*lines, f"  seen in {counted(len(seen), 'case')} of {where}" if seen else "  seen in no case"]

    def _summary(self) -> list[str]:
        """What is covered, what is untried, and how many cases there were."""
        if self.covered:
            lines = _named(f"covered: {counted(len(self.covered), *WHAT)}:", self.covered)
        else:
            lines = [f"covered: nothing; {self._why_nothing()}"]
            lines += [f"  {text}" for text in self.refusals] if not self.cases else []
        left = self.untried
        lines += [f"untried: {counted(len(left), *WHAT)}"] if left else []
        by_why: dict[str, list[str]] = {}
        for name, why in left.items():
            by_why.setdefault(why, []).append(name)
        for why, names in itertools.islice(by_why.items(), MOST_SHOWN):
            lines += textwrap.wrap(f"{', '.join(names)}: {why}", WIDTH, initial_indent="  ", subsequent_indent="    ")
        lines += [f"  ... and {len(by_why) - MOST_SHOWN} other reasons"] if len(by_why) > MOST_SHOWN else []
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.kinds.items())
        if self.cases:
            lines.append(f"cases: {self._counted()}{f'; of these tried: {kinds}' if kinds else ''}")
        return lines

    def _why_nothing(self) -> str:
        if any(c.verdict in FAILURES for c in self.cases):
            return "what it takes fails"
        if self.cases:
            return "nothing that it takes was tried"
        return "it takes no sample of any operator, and refuses them because" if self.refusals else "nothing was asked"

    def _counted(self) -> str:
        return ", ".join(f"{counted(count, 'case')} {verdict}" for verdict, count in self.counts().items() if count)

    def _failure_lines(self, verdict: str) -> list[str]:
        bad = [c for c in self.cases if c.verdict == verdict]
        if not bad:
            return [f"{verdict}: none"]
        lines = _named(f"{verdict}: {counted(len(bad), 'case')} of", dict.fromkeys(c.operator for c in bad))
        causes = by_cause((c, next(f for f in c.findings if f.verdict == verdict)) for c in bad)
        for group in causes[:MOST_SHOWN]:
            case, finding = group[0]
            more = f" and {len(group) - 1} more" if len(group) > 1 else ""
            lines.append(f"  {case.name} [{case.kind}]{more}: {finding.check}: {finding.text}")
        lines += [f"  ... and {len(causes) - MOST_SHOWN} other causes"] if len(causes) > MOST_SHOWN else []
        for small in (s for s in self.smallest if s.verdict == verdict):
            lines += ["", f"smallest case of {small.operator}, {small.check}: {small.finding}"]
            lines += [f"  {line}" for line in small.text.strip().splitlines()]
            lines += [f"  {text}" for text in small.inputs]
            lines += [f"  written to {small.file}"] if small.file else []
        return lines

    def markdown(self) -> str:
        """The certificate as a page."""
        rows: dict[str, Counter[str]] = {}
        for case in self.cases:
            rows.setdefault(case.operator, Counter())[case.verdict] += 1
        lines = [
            f"# Certificate of the backend `{self.backend}`",
            "",
            f"**{self._state().capitalize()}**: {self._counted() or 'nothing was tried'}.",
            *(["", f"**Unfinished**: {self.unfinished}."] if self.unfinished else []),
            "",
            *(line for text in self._deviations() for line in (f"{_sentence(text)}.", "")),
            *_table(("what", ""), [*self.versions.items(), *self.machine.items(), *_option_rows(self.asked)]),
            "",
            "## Operators and patterns",
            "",
            *_table(
                ("operator", *VERDICTS), [(f"`{o}`", *(str(n[v] or "") for v in VERDICTS)) for o, n in rows.items()]
            ),
        ]
        if self.untried:
            lines += ["", "## Untried operators and patterns", ""]
            lines += _table(("operator", "why"), [(f"`{name}`", why) for name, why in self.untried.items()])
        if self.kinds:
            lines += ["", "## Kinds of cases", ""]
            lines += _table(("kind", "tried"), [(kind, str(count)) for kind, count in self.kinds.items()])
        for verdict in (*FAILURES, DEVIATES, UNTRIED):
            bad = [(c, f) for c in self.cases for f in c.findings if f.verdict == verdict]
            if bad:
                lines += ["", f"## {verdict.capitalize()}", ""]
                lines += _table(("case", "kind", "check", "found"), [(c.name, c.kind, f.check, f.text) for c, f in bad])
        for small in self.smallest:
            lines += ["", f"### Smallest case of `{small.operator}`: {small.check}", "", small.finding, ""]
            lines += ["```", *small.text.strip().splitlines(), *small.inputs, "```"]
        if self.speed:
            lines += ["", "## Speed against the host", ""]
            shown = [(r.name, f"{r.backend_ms:.3g}", f"{r.host_ms:.3g}", f"{r.ratio:.2f}") for r in self.speed]
            lines += _table(("case", "backend, ms", "host, ms", "backend over host"), shown)
        lines += ["", *(f"- {note}" for note in self.notes)] if self.notes else []
        return "\n".join(lines).rstrip() + "\n"


@dataclass(frozen=True)
class Changes:
    """What differs between two certificates: verdicts that changed, cases that are new, cases that are gone."""

    verdicts: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """The changes as values that ``json.dumps`` takes."""
        return asdict(self)

    def __str__(self) -> str:
        changed, new = counted(len(self.verdicts), "verdict"), counted(len(self.added), "new case")
        lines = [f"changed: {changed}, {new}, {len(self.removed)} gone"]
        lines += [f"  {text}" for text in self.verdicts]
        lines += [f"  new: {name}" for name in self.added] + [f"  gone: {name}" for name in self.removed]
        return "\n".join(lines)


def read_certificate(path: str | os.PathLike[str]) -> Certificate:
    """The certificate that :meth:`Certificate.save` wrote. Raises InputError for another file."""
    try:
        data = json.loads(read_text(path))
        if not isinstance(data["schema"], int) or data["schema"] > SCHEMA:
            raise InputError(f"{path}: a certificate of schema {data['schema']}; this byoc reads up to {SCHEMA}")
        cases = [
            CaseResult(c["name"], c["operator"], c["kind"], tuple(Finding(**f) for f in c["findings"]))
            for c in data["cases"]
        ]
        return Certificate(
            str(data["backend"]),
            dict(data["versions"]),
            dict(data["machine"]),
            dict(data["asked"]),
            tuple(cases),
            tuple(SmallestCase(**{**s, "inputs": tuple(s["inputs"])}) for s in data["smallest"]),
            tuple(SpeedRow(**r) for r in data["speed"]),
            tuple(str(n) for n in data["notes"]),
            str(data.get("unfinished", "")),
            dict(data.get("deviations", {})),
            tuple(str(r) for r in data.get("refusals", ())),
        )
    except InputError:
        raise
    except (OSError, RecursionError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path}: no certificate that byoc wrote ({error})") from error


def _named(head: str, names: Collection[str]) -> list[str]:
    """*head*, and the first of *names*, in lines."""
    shown = ", ".join(itertools.islice(names, MOST_NAMES))
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return textwrap.wrap(
        f"{head} {shown}{more}", WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )


def _sentence(text: str) -> str:
    """*text* with a capital letter; the others stay (NaN)."""
    stripped = text.strip()
    return stripped[:1].upper() + stripped[1:]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(str(c).replace('|', chr(92) + '|') for c in row)} |" for row in rows]


def _option_rows(asked: Mapping[str, object]) -> list[tuple[str, str]]:
    return [
        (name, ", ".join(map(str, v)) if isinstance(v, (list, tuple)) else str(v)) for name, v in asked.items() if v
    ]
