"""What a run found: counts by backend and verdict, refusals by reason, what is covered; as text and as JSON."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path

from fuzz.case import Case
from fuzz.configurations import configuration_of
from fuzz.execute import BAD, Outcome
from fuzz.worker import Task


@dataclass
class Finding:
    """A case that went wrong, the configuration, and the file where it is kept."""

    case: str
    configuration: str
    verdict: str
    text: str
    path: str = ""


@dataclass
class Report:
    """Everything that is counted. ``folder`` is where cases that went wrong are kept."""

    folder: Path
    models: Counter[str] = field(default_factory=Counter)
    nothing: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    verdicts: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    taken: Counter[str] = field(default_factory=Counter)
    choices: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    refusals: Counter[str] = field(default_factory=Counter)
    covered: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def hear(self, kind: str, task: Task, message: tuple, folder: Path) -> None:
        """A message of a worker, or the pool's word that one crashed or hung."""
        name = f"{task.source}-{task.seed}" if not task.path else Path(task.path).stem
        if kind == "case":
            self.models[task.source] += 1 if not task.done else 0
            for operator, dtype in message[1]:
                self.covered[operator].add(dtype)
            self.seconds["generating"] += message[2]
        elif kind == "nothing":
            self.nothing[task.source] += 1
        elif kind == "broken":
            self.broken.append(f"{name}: {message[0]}")
        elif kind == "outcome":
            self._count(name, message[0], message[1], folder)
        elif kind in ("crashed", "hung"):
            step, text = message
            if ":" in step:
                self._count(name, step, Outcome(kind, text), folder)
            else:
                self.broken.append(f"{name}: {kind} while {step}: {text}")

    def _count(self, name: str, configuration: str, outcome: Outcome, folder: Path) -> None:
        chosen = configuration_of(configuration)
        self.verdicts[chosen.backend][outcome.verdict] += 1
        self.taken[chosen.backend] += outcome.taken
        self.seconds[chosen.backend] += outcome.seconds
        choices = {
            "policy": chosen.policy,
            "precision": chosen.precision,
            "executor": chosen.executor,
            "threads": str(chosen.threads),
            "saved": str(chosen.saved),
        }
        for choice, value in choices.items():
            self.choices[choice][value] += 1
        if outcome.verdict == "refused":
            self.refusals[outcome.text] += 1
        if outcome.verdict in BAD:
            self.findings.append(
                Finding(name, configuration, outcome.verdict, outcome.text, self._keep(name, configuration, folder))
            )

    def _keep(self, name: str, configuration: str, folder: Path) -> str:
        """Copy the case of a finding to a file that names its configuration."""
        source = folder / "current.json"
        if not source.is_file():
            return ""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{name}-{configuration.replace(':', '_').replace('+', '-')}.json"
        case = Case.read(source)
        replace(case, configurations=(configuration,)).write(path)
        return str(path)

    @property
    def bad(self) -> int:
        """How many findings there are; what broke the fuzzer itself counts too."""
        return len(self.findings) + len(self.broken)

    def to_json(self) -> dict[str, object]:
        """Everything, for a machine."""
        return {
            "models": dict(self.models),
            "seeds_without_a_model": dict(self.nothing),
            "verdicts": {b: dict(c) for b, c in self.verdicts.items()},
            "with_a_region": dict(self.taken),
            "choices": {k: dict(c) for k, c in self.choices.items()},
            "refusals": dict(self.refusals.most_common()),
            "operators": {op: sorted(types) for op, types in sorted(self.covered.items())},
            "seconds": {k: round(v, 1) for k, v in self.seconds.items()},
            "findings": [vars(f) for f in self.findings],
            "broken": self.broken,
        }

    def text(self) -> str:
        """Everything, for a person."""
        lines = [f"models: {sum(self.models.values())} ({', '.join(f'{n} {s}' for s, n in self.models.items())})", ""]
        names = list(dict.fromkeys(v for c in self.verdicts.values() for v in c))
        lines.append("".join(f"{n:>26}" for n in ["backend", *names, "with a region"]))
        for backend, counts in self.verdicts.items():
            row = [backend, *(counts[n] for n in names), self.taken[backend]]
            lines.append("".join(f"{v:>26}" for v in row))
        lines += ["", "refused, by reason:"]
        lines += [f"  {count:6} {reason}" for reason, count in self.refusals.most_common(40)] or ["  none"]
        pairs = sum(map(len, self.covered.values()))
        lines += ["", f"operators covered: {len(self.covered)}, with element types {pairs}"]
        lines += [f"  {choice}: " + ", ".join(f"{k} {n}" for k, n in c.items()) for choice, c in self.choices.items()]
        lines += [f"seconds: {', '.join(f'{k} {v:.0f}' for k, v in self.seconds.items())}"]
        lines += ["", f"wrong, crashed, hung or raised: {len(self.findings)}"]
        lines += [f"  {f.verdict:8} {f.case} {f.configuration}: {f.text}" for f in self.findings]
        lines += [f"  the fuzzer itself: {b}" for b in self.broken]
        return "\n".join(lines)
