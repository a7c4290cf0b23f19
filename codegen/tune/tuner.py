"""Tuning of a model's kernels: which matter, what is known of them, what is tried, and what is told of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.codegen.kernel.choice import Asked, Choice, Choices, Question
from byoc.codegen.kernel.program import Program
from byoc.codegen.tune.database import FOLDER, Database
from byoc.codegen.tune.level import LEVELS, Level, level_named
from byoc.codegen.tune.measure import Clock
from byoc.codegen.tune.record import Record, Trial
from byoc.codegen.tune.report import TuningReport
from byoc.codegen.tune.trials import Try, Workbench, laboratory, winner
from byoc.runtime.graph.executor_base import check_threads

OpenLaboratory = Callable[[Workbench, int, int], AbstractContextManager[Try]]


@dataclass
class _Answers(Asked):
    """Answers from what is known, and remembers what was asked."""

    known: dict[str, Record] = field(default_factory=dict)

    def choose(self, question: Question) -> Choice | None:
        """The known choice, where it is legal."""
        Asked.choose(self, question)
        record = self.known.get(question.kernel)
        return record.choice if record is not None and question.legal(record.choice) else None


class Tuner:
    """Prepares programs with tuned choices; one for a compilation.

    What is known at *level* or above is taken from *database*, the rest is tried now. With *again*, also what ran out
    of time before. Candidates are timed with so many *threads*, or with as many as what is compiled will run with.
    ``report`` tells what was done. *laboratory* (of a workbench, rounds and threads) and *clock* are for tests. Raises
    UserError for a number of threads below 1.
    """

    def __init__(
        self,
        level: Level,
        database: Database,
        again: bool = False,
        laboratory: OpenLaboratory = laboratory,
        clock: Clock = time.perf_counter,
        tell: Callable[[str], None] | None = None,
        threads: int | None = None,
    ):
        check_threads(threads)
        self.level, self.database, self.again, self.clock, self.threads = level, database, again, clock, threads
        self.report = TuningReport(level.name)
        self._laboratory = laboratory
        self._spent = 0.0
        self._tell = tell or (lambda text: None)

    @property
    def tunes(self) -> bool:
        """Whether it does anything; at level ``none`` not even the database is read."""
        return self.level.rounds > 0

    def prepared(self, programs: Sequence[Program], bench: Workbench) -> list[Program]:
        """*programs* prepared by *bench*, after tuning what matters in them and is not known."""
        if not self.tunes:
            return [bench.prepare(p, None) for p in programs]
        threads = self.threads or bench.threads
        context = bench.context(threads).digest
        self.report.threads.add(threads)
        known = self.database.read(context)
        before = set(known)
        while True:
            answers = _Answers(known=known)
            made = [bench.prepare(p, answers) for p in programs]
            worth = self.level.worth(answers)
            missing = [q for q in worth if not self._is_known(q, known, before)]
            if not missing:
                break
            found = self._tune(missing, bench, threads, answers)  # the answers may lead to other questions
            known = {**known, **{r.kernel: r for r in found}}
            before -= {r.kernel for r in found}
        self.report.add_known([known[q.kernel] for q in worth if q.kernel in before])
        self.report.left += len(answers.questions) - len(worth)
        return made

    def _is_known(self, question: Question, known: Mapping[str, Record], before: AbstractSet[str]) -> bool:
        """Whether nothing is to be tried: *known* has it, from now or, well enough, from *before*."""
        record = known.get(question.kernel)
        if record is None or question.kernel not in before:
            return record is not None
        wanted = LEVELS[record.level].covers(self.level.name) and (record.complete or not self.again)
        return wanted and question.legal(record.choice)

    def _tune(self, questions: Sequence[Question], bench: Workbench, threads: int, rest: Choices) -> list[Record]:
        """A record for each question, kept at once: tried until the time is over."""
        context, records = bench.context(threads).digest, []
        start = self.clock()
        with self._laboratory(bench, self.level.rounds, threads) as attempt:
            for k, question in enumerate(questions):
                late = self._spent + self.clock() - start >= self.level.seconds
                self._tell(f"tuning, kernel {k + 1} of {len(questions)}")
                trials = () if late else attempt(question, self.level.of(question), rest)
                records.append(self._record(question, context, trials, late))
                self.report.add_tuned(records[-1:], self.database.add(records[-1:]))
        self._spent += self.clock() - start
        self.report.seconds = self._spent
        return records

    def _record(self, question: Question, context: str, trials: Sequence[Trial], late: bool) -> Record:
        choice = winner(trials, question.expected)
        return Record(context, question.kernel, self.level.name, choice, question.expected, tuple(trials), not late)


def own_database() -> Database:
    """The database in the cache folder."""
    return Database(cache_dir() / FOLDER)


def tuner_of(option: object, tell: Callable[[str], None] | None = None) -> Tuner:
    """The tuner that an option names: by a level, or itself. Raises UserError for an unknown level.

    A new one says what it does through *tell*.
    """
    return option if isinstance(option, Tuner) else Tuner(level_named(option), own_database(), tell=tell)
