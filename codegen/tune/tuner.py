"""Tuning of a model's kernels: which matter, what is known of them, what is tried, and what is reported of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from byoc.base.progress import Progress, silent
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace, SpaceCollector
from byoc.codegen.kernel.program import Program
from byoc.codegen.tune.database import FOLDER, Database
from byoc.codegen.tune.level import LEVELS, Level, level_named
from byoc.codegen.tune.record import Record
from byoc.codegen.tune.report import TuningReport
from byoc.codegen.tune.trials import Bench, HostBench, Try, trial_runner
from byoc.runtime.graph.executor_base import check_threads

if TYPE_CHECKING:
    from byoc.codegen.tune.measure import Clock

OpenTrialRunner = Callable[[HostBench, int, int], AbstractContextManager[Try]]
OpenTrials = Callable[[int], AbstractContextManager[Try]]
Made = TypeVar("Made")


@dataclass
class _Answers(SpaceCollector):
    """Answers from what is *known*, or what *recall* finds and is known from then on; remembers what was asked."""

    known: dict[str, Record] = field(default_factory=dict)
    recall: Callable[[str], Record | None] = lambda kernel: None

    def choose(self, space: SearchSpace) -> Choice | None:
        """The known choice, where it is legal."""
        SpaceCollector.choose(self, space)
        if space.kernel not in self.known:
            found = self.recall(space.kernel)
            if found is not None:
                self.known[space.kernel] = found
        record = self.known.get(space.kernel)
        return record.choice if record is not None and space.legal(record.choice) else None


class Tuner:
    """Prepares programs with tuned choices; one for a compilation.

    What is known at *level* or above is taken from *database*, the rest is tried now. With *again*, also what ran out
    of time before. Candidates are timed with so many *threads*, or with as many as what is compiled will run with.
    ``report`` says what was done. *trial_runner* (of a bench, rounds and threads) and *clock* are for tests. Raises
    UserError for a number of threads below 1.
    """

    def __init__(
        self,
        level: Level,
        database: Database,
        again: bool = False,
        trial_runner: OpenTrialRunner = trial_runner,
        clock: Clock = time.perf_counter,
        progress: Progress | None = None,
        threads: int | None = None,
    ):
        check_threads(threads)
        self.level, self.database, self.again, self.clock, self.threads = level, database, again, clock, threads
        self.report = TuningReport(level.name)
        self._trial_runner = trial_runner
        self._spent = self._again = 0.0  # seconds, and those that making it all once more will take
        self.progress: Progress = progress or silent

    @property
    def tunes(self) -> bool:
        """Whether it does anything; at level ``none`` not even the database is read."""
        return self.level.rounds > 0

    def prepared(self, programs: Sequence[Program], bench: HostBench) -> list[Program]:
        """*programs* prepared by *bench*, after tuning what matters in them and is not known."""
        if not self.tunes:
            return [bench.prepare(p, None) for p in programs]

        def prepare(choices: Choices) -> list[Program]:
            return [bench.prepare(p, choices) for p in programs]

        return self.settled(prepare, bench, lambda threads: self._trial_runner(bench, self.level.rounds, threads))

    def settled(self, make: Callable[[Choices], Made], bench: Bench, trial_runner: OpenTrials) -> Made:
        """What *make* makes with choices that were tuned where they matter and were not known.

        *make* opens the same search spaces again until all that matter have a choice; *trial_runner* tries candidates
        with so many threads. For a level that tunes.
        """
        threads = self.threads or bench.threads
        context = bench.context(threads).digest
        self.report.place(context, bench.place, threads)
        known = self.database.read(context)
        tuned: set[str] = set()  # now
        while True:
            answers = _Answers(known=known, recall=bench.recall)
            start = self.clock()
            made = self.measured(partial(make, answers), "") if tuned else make(answers)
            self._again = self.clock() - start
            worth = self.level.worth(answers)
            missing = [s for s in worth if not self._is_known(s, known, tuned)]
            if not missing:
                break
            attempt = _Attempt(bench, trial_runner, threads, answers)
            found = self._tune(missing, attempt)  # the answers may lead to other spaces
            known = {**known, **{r.kernel: r for r in found}}
            tuned |= {r.kernel for r in found}
        tuned |= {r.kernel for r in self.report.tuned if r.context == context}  # for another part of the model
        self.report.add_known([known[s.kernel] for s in worth if s.kernel not in tuned])
        self.report.left += len(answers.spaces) - len(worth)
        return made

    def measured(self, measure: Callable[[], Made], stage: str = "measuring the device") -> Made:
        """What *measure* gives, whose time is a part of what the level allows; *stage* says what it does."""
        start = self.clock()
        if stage:
            self.progress(stage)
        made = measure()
        self._spent += self.clock() - start
        self.report.seconds = self._spent
        return made

    def _is_known(self, space: SearchSpace, known: Mapping[str, Record], tuned: AbstractSet[str]) -> bool:
        """Whether nothing is to be tried: *known* has it, *tuned* now or, well enough, before."""
        record = known.get(space.kernel)
        if record is None or space.kernel in tuned:
            return record is not None
        wanted = LEVELS[record.level].covers(self.level.name) and (record.complete or not self.again)
        return wanted and space.legal(record.choice)

    def _tune(self, spaces: Sequence[SearchSpace], at: _Attempt) -> list[Record]:
        """A record for each space, kept at once: tried until the time left is less than the longest took."""
        context, records = at.bench.context(at.threads).digest, []
        start, longest = self.clock(), 0.0
        with at.trial_runner(at.threads) as attempt:
            for k, space in enumerate(spaces):
                begin = self.clock()
                late = self._spent + begin - start + longest + self._again >= self.level.seconds
                self.progress(f"tuning, kernel {k + 1} of {len(spaces)}")
                trials = () if late else attempt(space, self.level.of(space), at.rest)
                longest = max(longest, self.clock() - begin)
                choice = at.bench.winner(trials, space.expected)
                record = Record(context, space.kernel, self.level.name, choice, space.expected, tuple(trials), not late)
                records.append(record)
                at.bench.keep(record)
                self.report.add_tuned(records[-1:], self.database.add(records[-1:]))
        self._spent += self.clock() - start
        self.report.seconds = self._spent
        return records


@dataclass(frozen=True)
class _Attempt:
    """Where spaces are tried, with so many *threads*; *rest* chooses what candidates leave open in their turn."""

    bench: Bench
    trial_runner: OpenTrials
    threads: int
    rest: Choices


def own_database() -> Database:
    """The database in the cache folder."""
    return Database(cache_dir() / FOLDER)


def tuner_of(option: object, progress: Progress | None = None) -> Tuner:
    """The tuner that an option names: by a level, or itself. Raises UserError for an unknown level.

    A new one says what it does through *progress*.
    """
    return option if isinstance(option, Tuner) else Tuner(level_named(option), own_database(), progress=progress)
