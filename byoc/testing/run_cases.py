"""The cases of a certification in worker processes, the most informative first, and the smallest case of each failure.

A worker that crashes, or says nothing for too long, is reported with its case, and the next cases go to another.
Whatever ends the run early leaves what was found until then.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from byoc.base.progress import Progress, silent
from byoc.base.time_left import TimeLeft
from byoc.contract.verdict import callee_name
from byoc.relay.expr import Call
from byoc.relay.traverse import dataflow_children, post_order
from byoc.testing.cases.combined import COMBINED
from byoc.testing.cases.operators import SAMPLE
from byoc.testing.causes import by_cause, is_common
from byoc.testing.certificate import FAILURES, CaseResult, SmallestCase
from byoc.testing.checks import (
    COMPILE,
    CRASHED,
    EVERY_CASE,
    FAILED,
    NUMBERS,
    ONCE,
    THREADS,
    UNTRIED,
    VERDICT,
    Finding,
)
from byoc.testing.core.case import Case, write_case
from byoc.testing.core.reduction import reduce
from byoc.testing.core.reference import outputs_of
from byoc.testing.core.sent_case import SentCase
from byoc.testing.core.shrink import SHRINKS
from byoc.testing.core.worker_pool import NO_END, Done, Ended, Lost, WorkerPool
from byoc.testing.worker import ExamineCase, Examined, MadeCases, MakeCases

REDUCE_SECONDS = 8.0  # for the smallest case of one failure
CRASH_SECONDS = 24.0  # of one that crashes: each candidate costs a process
MOST_REDUCED = 24  # failures whose cases are made smaller
MOST_LOST = 3  # cases of one operator in which a worker crashes or comes to no end; those not begun are not tried then
MOST_VERDICTS = 20  # in which a worker crashes or comes to no end
SHOWN = 64  # elements of an input that a certificate shows
OVER = "the time was over"


@dataclass
class CaseRun:
    """Runs cases on *pool* until *deadline* (of ``time.monotonic()``; None for none), without the checks in *skip*."""

    pool: WorkerPool
    skip: Sequence[str] = ()
    deadline: float | None = None
    progress: Progress = silent
    imported: bool = False  # whether loading what was saved needed the vendor's file
    results: list[CaseResult | None] = field(default_factory=list)
    smallest: list[SmallestCase] = field(default_factory=list)
    lost_verdicts: dict[str, str] = field(default_factory=dict)
    cases: Sequence[SentCase] = ()
    done: int = 0  # of the cases
    left: TimeLeft = field(default_factory=lambda: TimeLeft(0))

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def make(self, seed: int, only: Sequence[str]) -> MadeCases:
        """All cases, and what was said of others. A verdict in which a worker is lost is not asked again."""
        while True:
            ended = self.pool.one(MakeCases(seed, only, frozenset(self.lost_verdicts)))
            if isinstance(ended, Done):
                assert isinstance(ended.value, MadeCases)
                self.cases = ended.value.cases
                self.results = [None] * len(self.cases)
                return ended.value
            assert isinstance(ended, Lost)
            self.lost_verdicts[ended.step] = ended.text
            if not ended.step or len(self.lost_verdicts) > MOST_VERDICTS:
                return MadeCases((), {}, {}, {}, ())

    def examine(self) -> None:
        """Put each case through the checks; ``results`` has what is known when this is interrupted."""
        lost: Counter[str] = Counter()
        self.done, self.left = 0, TimeLeft(len(self.cases))
        self.pool.expect(len(self.cases))
        for number, ended in self.pool.run(self._tasks(lost), self.deadline):
            case = self.cases[number]
            findings = self.found(ended)
            if findings is not None:
                lost[case.operator] += any(f.verdict == CRASHED for f in findings) + _is_hung(ended)
                self.results[number] = CaseResult(case.name, case.operator, case.kind, findings)
                self.done += 1

    def _tasks(self, lost: Counter[str]) -> Iterator[tuple[int, ExamineCase]]:
        met: set[str] = set()
        for number, case in enumerate(self.cases):
            checks = [c for c in EVERY_CASE if c not in self.skip]
            if case.operator not in met:
                met.add(case.operator)
                checks += [c for c in ONCE if c not in self.skip]
            if lost[case.operator] >= MOST_LOST:
                reason = f"{MOST_LOST} cases of {case.operator} crashed or came to no end before"
                finding = Finding(NUMBERS, UNTRIED, reason)
                self.results[number] = CaseResult(case.name, case.operator, case.kind, (finding,))
                self.done += 1
                continue
            self.progress(f"{number + 1} of {len(self.cases)}{self.left.text(self.done)}: {case.name}")
            yield number, ExamineCase(case, checks)

    def found(self, ended: Ended) -> tuple[Finding, ...] | None:
        """The findings of a task on a case that *ended*; None where the time was over."""
        if isinstance(ended, Lost):
            return (lost_finding(ended),)
        if not isinstance(ended, Done):
            return None
        assert isinstance(ended.value, Examined)
        self.imported |= ended.value.imported
        return ended.value.findings

    def find_smallest(self, folder: str | os.PathLike[str] | None) -> None:
        """The smallest case of each failure into ``smallest``, and into *folder* where there is one.

        Each is made smaller while there is time.
        """
        failed = [
            (sent, finding)
            for sent, result in zip(self.cases, self.results, strict=True)
            for finding in (result.findings if result is not None else ())
            if finding.verdict in FAILURES and finding.check != VERDICT
        ]
        for number, group in enumerate(_groups(failed)):
            first = min((sent.case for sent, _ in group), key=lambda case: case.size)
            finding = next(f for sent, f in group if sent.name == first.name and sent.kind == first.kind)
            case, operator, check = first, first.operator, finding.check
            if number < MOST_REDUCED and not self.is_over:
                self.progress(f"making the case of {operator} smaller")
                case, finding = self.reduced(first, finding)
                if first.kind == COMBINED and finding.verdict != CRASHED:
                    operator = self._blamed(operator, check, case)
            is_anothers = operator != first.operator
            if not any(
                small.check == check and (small.text == case.text or (is_anothers and small.operator == operator))
                for small in self.smallest
            ):
                self.smallest.append(_smallest(operator, check, case, finding, _written(case, number, folder)))

    def _blamed(self, operator: str, check: str, case: Case) -> str:
        """The operator that fails *check* in combinations of *operator* with others, by the smallest *case* of them:
        where only another one is left in it, the combinations count as that one's.
        """
        nodes = post_order(case.function.body, dataflow_children)
        left = {callee_name(node) for node in nodes if isinstance(node, Call)}
        if len(left) != 1 or operator in left:
            return operator
        blamed = left.pop()
        for number, result in enumerate(self.results):
            if result is not None and (result.operator, result.kind) == (operator, COMBINED):
                if any(finding.check == check for finding in result.findings):
                    self.results[number] = replace(result, operator=blamed)
        return blamed

    def reduced(self, case: Case, finding: Finding) -> tuple[Case, Finding]:
        """The smallest case that still fails as *finding* says, and what is found of it."""
        checks = list(dict.fromkeys((NUMBERS, finding.check)))

        def again(candidate: Case) -> Finding | None:
            found = self.found(self.pool.one(ExamineCase(SentCase.of(candidate), checks, ask=True))) or ()
            return next((f for f in found if (f.check, f.verdict) == (finding.check, finding.verdict)), None)

        seconds = CRASH_SECONDS if finding.verdict == CRASHED else REDUCE_SECONDS
        is_hung = finding.verdict == CRASHED and finding.text.startswith(NO_END)
        if is_hung or finding.check == THREADS or again(case) is None:  # what chance decides is not made smaller
            return case, finding
        end = time.monotonic() + seconds
        small = reduce(case, SHRINKS, lambda c: again(c) is not None, min(end, self.deadline or end))
        return small, again(small) or finding


def _groups(failed: Sequence[tuple[SentCase, Finding]]) -> list[list[tuple[SentCase, Finding]]]:
    """Those of one operator and check together, and before them those of a cause that many operators have."""
    causes = by_cause(failed)
    groups = [group for group in causes if is_common(group)]
    rest: dict[tuple[str, str], list[tuple[SentCase, Finding]]] = {}
    for sent, finding in (pair for group in causes if not is_common(group) for pair in group):
        rest.setdefault((sent.operator, finding.check), []).append((sent, finding))
    return [*groups, *rest.values()]


def _is_hung(ended: Ended) -> bool:
    """Whether a task came to no end, which takes long, so that it counts twice."""
    return isinstance(ended, Lost) and ended.hung


def lost_finding(lost: Lost) -> Finding:
    """What is found of a task whose worker was lost."""
    return Finding(lost.step or COMPILE, CRASHED, lost.text)


def verdict_results(raised: Mapping[str, str], verdict: str = FAILED, check: str = VERDICT) -> list[CaseResult]:
    """The verdicts that failed when asked, or in which a worker was lost, and patterns that match nothing."""
    return [
        CaseResult(name, name.partition("[")[0], SAMPLE, (Finding(check, verdict, text),))
        for name, text in raised.items()
    ]


def _smallest(operator: str, check: str, case: Case, finding: Finding, file: str) -> SmallestCase:
    inputs = tuple(f"{name} = {shown(array)}" for name, array in case.inputs().items())
    return SmallestCase(operator, check, finding.verdict, case.text, finding.text, inputs, file)


def _written(case: Case, number: int, folder: str | os.PathLike[str] | None) -> str:
    if folder is None:
        return ""
    safe = "".join(c if c.isalnum() or c in "._" else "_" for c in case.operator)
    return str(
        write_case(case, Path(folder) / f"{number:02d}_{safe}.npz", outputs_of(case.function, case.feeds[0], False))
    )


def shown(array: np.ndarray) -> str:
    """An array as text on one line: its numbers where they are few."""
    if array.size > SHOWN:
        return f"{array.dtype}{list(array.shape)}"
    return f"{array.dtype}{list(array.shape)} {' '.join(str(array.tolist()).split())}"
