"""The trials of one kernel: every candidate compiled, checked against the model's own, and timed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.codegen.kernel.program import Program
from byoc.codegen.tune.context import Context
from byoc.codegen.tune.record import DROPPED, MEASURED, Trial
from byoc.errors import ByocError
from byoc.runtime.dso.module import DsoModule

if TYPE_CHECKING:
    from byoc.codegen.tune.record import Record
    from byoc.codegen.tune.trial_batch import CompiledCandidate, Outcome, RunBatch

WON = 0.985  # of the time of the model's choice: what another must stay below to be taken
BATCH_SIZE = 12  # candidates that are in memory at once, with copies of their weights

Try = Callable[[SearchSpace, Sequence[Choice], Choices], Sequence[Trial]]


class Bench(Protocol):
    """Where kernels are tried, as a tuner sees it.

    ``context`` says where times with so many threads hold; ``threads`` is with how many what is compiled will run,
    ``place`` the device that runs it, empty for the host. A bench may keep records of its own beside the database.
    """

    @property
    def threads(self) -> int:
        """See the class."""

    @property
    def place(self) -> str:
        """See the class."""

    @property
    def context(self) -> Callable[[int], Context]:
        """See the class."""

    def recall(self, kernel: str) -> Record | None:
        """What is kept about *kernel*, or None."""

    def keep(self, record: Record) -> None:
        """Keep *record*."""

    def winner(self, trials: Sequence[Trial], expected: Choice) -> Choice:
        """The choice that won among *trials*, or what the model *expected*."""


@dataclass(frozen=True)
class HostBench:
    """What compiles programs: ``prepare`` asks the choices, ``build`` makes the library of prepared programs.

    ``context`` says where times with so many threads hold; ``caches`` are the bytes of the data caches by level. What
    is compiled will be run by so many ``threads``; ``team`` gives the library by which several run a kernel.
    """

    prepare: Callable[[Program, Choices | None], Program]
    build: Callable[[Sequence[Program]], DsoModule]
    context: Callable[[int], Context]
    caches: Mapping[int, int] = field(default_factory=dict)
    threads: int = 1
    team: Callable[[], bytes] | None = None
    place: str = ""

    def recall(self, kernel: str) -> Record | None:
        """None: the database alone keeps what was found out."""

    def keep(self, record: Record) -> None:
        """Nothing, as :meth:`recall`."""

    def winner(self, trials: Sequence[Trial], expected: Choice) -> Choice:
        """The choice that won."""
        return winner(trials, expected)


@dataclass(frozen=True)
class Only:
    """One answer for one kernel; the *rest* answers what is asked about others."""

    kernel: str
    choice: Choice
    rest: Choices | None = None
    given: list[Choice] = field(default_factory=list)

    def choose(self, space: SearchSpace) -> Choice | None:
        """The choice, where the space is the kernel's."""
        if space.kernel != self.kernel:
            return self.rest.choose(space) if self.rest is not None else None
        self.given.append(self.choice)
        return self.choice


class TrialRunner:
    """Tries candidates on a bench, with so many *threads*; *run_batch* times what is compiled."""

    def __init__(self, bench: HostBench, rounds: int, run_batch: RunBatch, threads: int = 1):
        self.bench, self.rounds, self.run_batch, self.threads = bench, rounds, run_batch, threads

    def trials(self, space: SearchSpace, candidates: Sequence[Choice], rest: Choices | None = None) -> list[Trial]:
        """A trial for each of *candidates*, in their order; the first is the one that others must agree with.

        Many are tried in batches, the first in each of them; then the fastest of all batches against each other. *rest*
        chooses from the spaces that a candidate opens in its turn.
        """
        first, others = candidates[0], candidates[1:]
        found: dict[Choice, Trial] = {}
        fastest: list[Choice] = []
        for k in range(0, max(len(others), 1), BATCH_SIZE - 1):
            batch = self._batch(space, [first, *others[k : k + BATCH_SIZE - 1]], rest)
            found.update({t.choice: t for t in batch})
            fastest.append(winner(batch, first))
        final = list(dict.fromkeys([first, *fastest]))
        if len(fastest) > 1 and len(final) > 1:
            found = {c: _dropped(t) for c, t in found.items()}
            found.update({t.choice: t for t in self._batch(space, final, rest)})
        return [found[c] for c in candidates]

    def _batch(self, space: SearchSpace, candidates: Sequence[Choice], rest: Choices | None) -> list[Trial]:
        from byoc.codegen.tune.kernel_program import inputs_for, output_of
        from byoc.codegen.tune.trial_batch import TrialBatch

        made = self._built(space, candidates, rest)
        compiled = {c: _compiled(*what) for c, what in made.items() if not isinstance(what, str)}
        outcomes: dict[Choice, Outcome] = {c: what for c, what in made.items() if isinstance(what, str)}
        if compiled:
            program = next(what[0] for what in made.values() if not isinstance(what, str))
            team = self.bench.team() if self.threads > 1 and self.bench.team is not None else None
            batch = TrialBatch(
                tuple(compiled.values()),
                tuple(inputs_for(program)),
                output_of(program),
                self.rounds,
                self.threads,
                team,
                self.bench.caches,
            )
            outcomes.update(zip(compiled, self.run_batch(batch), strict=True))
        return [_trial(c, outcomes[c]) for c in candidates]

    def _built(
        self, space: SearchSpace, candidates: Sequence[Choice], rest: Choices | None
    ) -> dict[Choice, tuple[Program, DsoModule] | str]:
        """Each candidate with its program and the library that has it, or why there is none.

        One library for all; where that fails, one for each, to find out which is at fault.
        """
        programs: dict[Choice, Program] = {}
        failed: dict[Choice, str] = {}
        for k, choice in enumerate(candidates):
            try:
                programs[choice] = self._program(space, Only(space.kernel, choice, rest), f"candidate_{k}")
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
        return {c: (programs[c], modules[c]) if c in modules else failed[c] for c in candidates}

    def _program(self, space: SearchSpace, only: Only, symbol: str) -> Program:
        from byoc.codegen.tune.kernel_program import kernel_program

        program = self.bench.prepare(kernel_program(space, symbol), only)
        if not only.given:
            raise ByocError("alone the kernel is another one")
        return program


@contextmanager
def trial_runner(bench: HostBench, rounds: int, threads: int) -> Iterator[Try]:
    """Trials whose candidates run in a process of their own, which ends with the context."""
    from byoc.codegen.tune.worker_process import WorkerProcess

    with WorkerProcess() as worker:
        yield TrialRunner(bench, rounds, worker.run, threads).trials


def _compiled(program: Program, module: DsoModule) -> CompiledCandidate:
    from byoc.codegen.tune.trial_batch import CompiledCandidate

    constants = tuple(module.constant_arrays[spec.name].numpy() for spec in program.signature.constants)
    return CompiledCandidate(module.library, program.signature, constants)


def _trial(choice: Choice, outcome: Outcome) -> Trial:
    if isinstance(outcome, str):
        return Trial(choice, state=outcome)
    return Trial(choice, outcome.shortest, outcome.median, DROPPED if outcome.dropped else MEASURED)


def _dropped(trial: Trial) -> Trial:
    """*trial* as one that was given up, where it was timed."""
    return trial if trial.shortest is None else Trial(trial.choice, trial.shortest, trial.median, DROPPED)


def winner(trials: Sequence[Trial], expected: Choice) -> Choice:
    """The choice with the shortest time, or *expected* where it is as good as that; also where nothing was timed.

    One that was dropped does not win over one that was measured to the end.
    """
    timed = {t.choice: (t.state == DROPPED, t.shortest) for t in trials if t.shortest is not None}
    if not timed:
        return expected
    best = min(timed, key=lambda c: timed[c])
    if expected not in timed or best == expected:
        return best
    return best if timed[best][1] < WON * timed[expected][1] else expected
