"""The cases of a certification one after the other, the most telling first, and the smallest case of each failure."""

from __future__ import annotations

import fnmatch
import os
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from byoc.contract.support_table import registered_operators
from byoc.driver.compiler.plan import plan
from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.testing.cases.combined import COMBINED, combined_cases
from byoc.testing.cases.large import LARGE, large_cases
from byoc.testing.cases.layouts import LAYOUT, layout_cases
from byoc.testing.cases.operators import CONSTANT, DTYPE, EMPTY, FREE, SAMPLE, Asked, operator_cases
from byoc.testing.cases.patterns import PATTERN, PATTERN_SAMPLES, pattern_cases
from byoc.testing.cases.special import SPECIAL, special_cases
from byoc.testing.certificate import FAILURES, CaseResult, SmallestCase
from byoc.testing.checks import EVERY_CASE, NUMBERS, ONCE, THREADS, UNTRIED, VERDICT, WRONG, Examiner, Finding
from byoc.testing.core.case import Case, write_case
from byoc.testing.core.reduction import reduce
from byoc.testing.core.shrink import SHRINKS

# kinds in the order in which they are tried: what models have first
KINDS = (SAMPLE, PATTERN, PATTERN_SAMPLES, LARGE, COMBINED, CONSTANT, LAYOUT, SPECIAL, EMPTY, FREE, DTYPE)
REDUCE_SECONDS = 8.0  # for the smallest case of one failure
MOST_REDUCED = 24  # failures whose cases are made smaller
SHOWN = 64  # elements of an input that a certificate shows
Tell = Callable[[str], None]


def all_cases(asked: Asked, seed: int, only: Sequence[str]) -> list[Case]:
    """Every case that *asked* takes, in the order in which they are tried: the first sample of each operator first."""
    found: list[Case] = []
    for op in registered_operators():
        if is_wanted(only, op.name) or not only or any(is_wanted(only, kind) for kind in KINDS):
            found += operator_cases(asked, op, seed)
    samples = [c for c in found if c.kind == SAMPLE]
    found += [*combined_cases(asked, found), *large_cases(asked, samples), *special_cases(samples)]
    found += pattern_cases(asked, seed)
    found += layout_cases(asked, seed)
    wanted = [c for c in found if not only or is_wanted(only, c.operator) or is_wanted(only, c.kind)]
    seen: dict[tuple[str, str], int] = {}
    ranked = []
    for place, case in enumerate(wanted):
        turn = seen[case.operator, case.kind] = seen.get((case.operator, case.kind), -1) + 1
        ranked.append(((min(turn, 1), KINDS.index(case.kind), place), case))
    return [case for _, case in sorted(ranked, key=lambda r: r[0])]


def is_wanted(only: Sequence[str], name: str) -> bool:
    """Whether one of the patterns *only* is *name*."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in only)


@dataclass
class CaseRun:
    """Runs cases until *deadline* (of ``time.monotonic()``, None for no end), leaving out the checks in *skip*."""

    examiner: Examiner
    skip: Sequence[str] = ()
    deadline: float | None = None
    tell: Tell = lambda stage: None

    def results(self, cases: Sequence[Case]) -> list[tuple[Case, CaseResult]]:
        """What became of each of *cases*."""
        found: list[tuple[Case, CaseResult]] = []
        met: set[str] = set()
        for number, case in enumerate(cases, 1):
            findings = [Finding(NUMBERS, UNTRIED, "the time was over")]
            if self.deadline is None or time.monotonic() < self.deadline:
                self.tell(f"{number} of {len(cases)}: {case.name}")
                checks = [c for c in EVERY_CASE if c not in self.skip]
                if case.operator not in met:
                    met.add(case.operator)
                    checks += [c for c in ONCE if c not in self.skip]
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # numpy's, of kernels on samples
                    findings = self.examiner.examine(case, checks)
            found.append((case, CaseResult(case.name, case.operator, case.kind, tuple(findings))))
        return found

    def smallest(
        self, results: Iterable[tuple[Case, CaseResult]], folder: str | os.PathLike[str] | None
    ) -> list[SmallestCase]:
        """The smallest case of each failure, made smaller, and written into *folder* where there is one."""
        failures: dict[tuple[str, str], list[tuple[Case, Finding]]] = {}
        for case, result in results:
            for finding in result.findings:
                if finding.verdict in FAILURES and finding.check != VERDICT:
                    failures.setdefault((case.operator, finding.check), []).append((case, finding))
        told: list[SmallestCase] = []
        for number, ((operator, check), group) in enumerate(failures.items()):
            case, finding = min(group, key=lambda pair: pair[0].size)
            if number < MOST_REDUCED:
                self.tell(f"making the case of {operator} smaller")
                case, finding = self.reduced(case, finding)
            if not any(t.text == case.text and t.check == check for t in told):
                told.append(_told(operator, check, case, finding, self._written(case, number, folder)))
        return told

    def reduced(self, case: Case, finding: Finding, seconds: float = REDUCE_SECONDS) -> tuple[Case, Finding]:
        """The smallest case that still fails as *finding* says, and what is found of it."""
        checks = list(dict.fromkeys((NUMBERS, finding.check)))

        def again(candidate: Case) -> Finding | None:
            if not self.is_taken(candidate):
                return None
            found = self.examiner.examine(candidate, checks)
            return next((f for f in found if (f.check, f.verdict) == (finding.check, finding.verdict)), None)

        if finding.check == THREADS or again(case) is None:  # what chance decides is not made smaller
            return case, finding
        small = reduce(case, SHRINKS, lambda c: again(c) is not None, time.monotonic() + seconds)
        return small, again(small) or finding

    def is_taken(self, case: Case) -> bool:
        """Whether the backend still takes *case*: each call, or a region of it by the planner."""
        backend = self.examiner.backend
        if not case.whole:
            return Asked(backend).takes(case.function, case.name)
        try:
            return bool(plan(IRModule.from_expr(case.function), [backend.name, "host"]).regions)
        except UserError:
            return False

    def _written(self, case: Case, number: int, folder: str | os.PathLike[str] | None) -> str:
        if folder is None:
            return ""
        safe = "".join(c if c.isalnum() or c in "._" else "_" for c in case.operator)
        outputs = self.examiner.wanted(case, case.feeds[0])[0]
        return str(write_case(case, Path(folder) / f"{number:02d}_{safe}.npz", outputs))


def raised_verdicts(asked: Asked) -> list[CaseResult]:
    """The verdicts that raised, as results."""
    return [
        CaseResult(name, name.partition("[")[0], SAMPLE, (Finding(VERDICT, WRONG, text),))
        for name, text in asked.raised.items()
    ]


def _told(operator: str, check: str, case: Case, finding: Finding, file: str) -> SmallestCase:
    inputs = tuple(f"{name} = {shown(array)}" for name, array in case.inputs().items())
    return SmallestCase(operator, check, finding.verdict, case.text, finding.text, inputs, file)


def shown(array: np.ndarray) -> str:
    """An array as text on one line: its numbers where they are few."""
    if array.size > SHOWN:
        return f"{array.dtype}{list(array.shape)}"
    return f"{array.dtype}{list(array.shape)} {' '.join(str(array.tolist()).split())}"
