"""Delta debugging of a case: shrink it as long as it fails in the same way.

What runs a candidate is a worker process, so that crashes and hangs are reduced as wrong numbers are.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from byoc.testing.core import reduction
from fuzz.case import Case
from fuzz.execute import Outcome
from fuzz.judge.oracle import NotApplicable
from fuzz.pool import Pool
from fuzz.shrink import SHRINKS
from fuzz.worker import Task

Fails = Callable[[Case], bool]


class Prober:
    """Says what becomes of a case under configurations; each runs in a worker process below *scratch*."""

    def __init__(self, scratch: Path):
        self._scratch = scratch
        self._outcomes: dict[str, Outcome] = {}
        self._nothing = ""
        self._pool = Pool(1, scratch, self._hear)

    def outcomes(self, case: Case, configurations: tuple[str, ...]) -> dict[str, Outcome]:
        """The outcome for each configuration. Raises NotApplicable where no oracle can compute the case."""
        self._outcomes, self._nothing = {}, ""
        path = case.write(self._scratch / "probe.json")
        task = Task("file", 0, (), path=str(path), configurations=configurations)
        self._pool.run(iter([task]), time.monotonic() + 3600)
        if self._nothing:
            raise NotApplicable(self._nothing)
        return self._outcomes

    def _hear(self, kind: str, task: Task, message: tuple, folder: Path) -> None:
        if kind == "outcome":
            self._outcomes[message[0]] = message[1]
        elif kind in ("crashed", "hung") and ":" in message[0]:
            self._outcomes[message[0]] = Outcome(kind, message[1])
        elif kind in ("nothing", "broken", "crashed", "hung"):
            self._nothing = str(message[-1])

    def close(self) -> None:
        """End the worker."""
        self._pool.close()


def kind_of(outcome: Outcome) -> tuple[str, str]:
    """What must stay the same while a case is reduced: the verdict, and the class of an exception."""
    return outcome.verdict, outcome.text.split(":")[1].strip() if outcome.verdict == "error" else ""


def reduce(case: Case, fails: Fails, deadline: float) -> Case:
    """The smallest case that is found before *deadline* and of which *fails* is true, as it is of *case*."""
    return reduction.reduce(case, SHRINKS, fails, deadline, ends=NotApplicable)


def reduced(case: Case, configuration: str, prober: Prober, seconds: float) -> tuple[Case, Outcome]:
    """*case* reduced under *configuration*, and its outcome. Raises ValueError when it does not fail."""
    first = prober.outcomes(case, (configuration,))[configuration]
    if not first.is_bad:
        raise ValueError(f"{case.name} does not fail under {configuration}: {first.verdict}")
    kind = kind_of(first)

    def fails(candidate: Case) -> bool:
        try:
            outcome = prober.outcomes(candidate, (configuration,)).get(configuration)
        except NotApplicable:
            return False
        return outcome is not None and outcome.is_bad and kind_of(outcome) == kind

    small = reduce(case, fails, time.monotonic() + seconds)
    outcome = prober.outcomes(small, (configuration,))[configuration]
    return replace(small, configurations=(configuration,), note=outcome.text), outcome
