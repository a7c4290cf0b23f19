"""The trials of one kernel: every candidate compiled, checked against the model's own, and timed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.codegen.kernel.program import Program
from byoc.codegen.tune.choice import Choice, Choices, Question
from byoc.codegen.tune.context import Context
from byoc.codegen.tune.kernel_program import arrays_for, copies_of, kernel_program
from byoc.codegen.tune.measure import Clock, Run, measure, on_one_core
from byoc.codegen.tune.record import DROPPED, MEASURED, Trial
from byoc.errors import ByocError
from byoc.runtime.dso.module import DsoModule

LARGEST_ERROR = 1e-2  # of the largest result: what a candidate may differ from the model's own
WON = 0.985  # of the time of the model's choice: what another must stay below to be taken


@dataclass(frozen=True)
class Workbench:
    """What compiles programs: ``prepare`` asks the choices, ``build`` makes the library of prepared programs.

    ``context`` tells where times hold; ``caches`` are the bytes of the data caches by level.
    """

    prepare: Callable[[Program, Choices | None], Program]
    build: Callable[[Sequence[Program]], DsoModule]
    context: Callable[[], Context]
    caches: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Only:
    """One answer for one kernel; the *rest* answers what is asked about others."""

    kernel: str
    choice: Choice
    rest: Choices | None = None
    given: list[Choice] = field(default_factory=list)

    def choose(self, question: Question) -> Choice | None:
        """The choice, where the question is about the kernel."""
        if question.kernel != self.kernel:
            return self.rest.choose(question) if self.rest is not None else None
        self.given.append(self.choice)
        return self.choice


class Laboratory:
    """Tries candidates on a workbench."""

    def __init__(self, bench: Workbench, rounds: int, clock: Clock = time.thread_time):
        self.bench, self.rounds, self.clock = bench, rounds, clock

    def trials(self, question: Question, candidates: Sequence[Choice], rest: Choices | None = None) -> list[Trial]:
        """A trial for each of *candidates*, in their order; the first is the one that others must agree with.

        *rest* answers the questions that a candidate asks in its turn.
        """
        calls: dict[Choice, list[Run]] = {}
        failed: dict[Choice, str] = {}
        expected: np.ndarray | None = None
        for choice, made in self._built(question, candidates, rest):
            if isinstance(made, str):
                failed[choice] = made
                continue
            program, module = made
            inputs, output = arrays_for(program)
            try:
                found = _bound(program, module, inputs, output, self.bench.caches)
                found[0]()
            except ByocError as error:
                failed[choice] = f"failed: {error}"
                continue
            if expected is None:
                expected = output.copy()
            if agrees(output, expected):
                calls[choice] = found
            else:
                failed[choice] = "failed: its result is another one"
        return self._timed(candidates, calls, failed)

    def _timed(
        self, candidates: Sequence[Choice], calls: Mapping[Choice, Sequence[Run]], failed: Mapping[Choice, str]
    ) -> list[Trial]:
        with on_one_core():
            times = dict(zip(calls, measure(list(calls.values()), self.rounds, self.clock), strict=True))
        return [
            Trial(c, state=failed[c]) if c in failed
            else Trial(c, times[c].shortest, times[c].median, DROPPED if times[c].dropped else MEASURED)
            for c in candidates
        ]

    def _built(
        self, question: Question, candidates: Sequence[Choice], rest: Choices | None
    ) -> list[tuple[Choice, tuple[Program, DsoModule] | str]]:
        """Each candidate with its program and the library that has it, or why there is none.

        One library for all; where that fails, one for each, to find out which is at fault.
        """
        programs: dict[Choice, Program] = {}
        failed: dict[Choice, str] = {}
        for k, choice in enumerate(candidates):
            try:
                programs[choice] = self._program(question, _Only(question.kernel, choice, rest), f"candidate_{k}")
            except ByocError as error:
                failed[choice] = f"failed: {error}"
        modules: dict[Choice, DsoModule] = {}
        try:
            modules = dict.fromkeys(programs, self.bench.build(list(programs.values()))) if programs else {}
        except ByocError:
            for choice, program in programs.items():
                try:
                    modules[choice] = self.bench.build([program])
                except ByocError as error:
                    failed[choice] = f"failed: {error}"
        return [(c, (programs[c], modules[c]) if c in modules else failed[c]) for c in candidates]

    def _program(self, question: Question, only: _Only, symbol: str) -> Program:
        program = self.bench.prepare(kernel_program(question, symbol), only)
        if not only.given:
            raise ByocError("alone the kernel is another one")
        return program


def _bound(
    program: Program, module: DsoModule, inputs: Sequence[np.ndarray], output: np.ndarray, caches: Mapping[int, int]
) -> list[Run]:
    """A call for each copy of the constants of *program*."""
    names = [spec.name for spec in program.signature.constants]
    calls: list[Run] = []
    for arrays in copies_of({n: module.constant_arrays[n] for n in names}, caches):
        module.initialize(program.symbol, arrays)
        calls.append(module.bind(program.symbol, [*inputs, output]))
    return calls


def agrees(found: np.ndarray, expected: np.ndarray) -> bool:
    """Whether two results are the same within what schedules may differ in rounding, relative to the largest."""
    if found.shape != expected.shape:
        return False
    a, b = found.astype("float64"), expected.astype("float64")
    largest = np.max(np.abs(b), initial=0.0)
    return bool(np.all(np.abs(a - b) <= LARGEST_ERROR * largest)) and bool(np.all(np.isfinite(a) == np.isfinite(b)))


def winner(trials: Sequence[Trial], expected: Choice) -> Choice:
    """The choice with the shortest time, or *expected* where it is as good as that; also where nothing was timed."""
    times = {t.choice: t.shortest for t in trials if t.shortest is not None}
    if not times:
        return expected
    best = min(times, key=lambda c: times[c])
    return best if expected not in times or times[best] < WON * times[expected] else expected
