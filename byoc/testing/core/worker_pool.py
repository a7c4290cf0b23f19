"""Workers, each with one task after the other; one that crashes or says nothing for too long is named and replaced."""

from __future__ import annotations

import pickle
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Any, Protocol, TypeVar

from byoc.base.progress import Progress
from byoc.errors import InternalError, UserError
from byoc.testing.core.child_process import ChildProcess
from byoc.testing.core.own_time import OwnTime, standing

READY, ABSENT, STEP, DONE, FAILED = "ready", "absent", "step", "done", "failed"
START_SECONDS = 120.0  # until a worker is ready: Python starts, and a vendor's package is imported
NO_END = "no end"  # how the sentence about a task begins that did not end
GRACE_SECONDS = 5.0  # for what is under way when the time is over
MOST_TURNS = 2  # of a task that came to no end while its worker was stopped or without a processor
TASKS_A_WORKER = 20  # that there are before another worker is worth starting
C = TypeVar("C", contravariant=True)


class AbsentError(UserError):
    """What a worker needs is not to be had in a new process."""


class Task(Protocol[C]):
    """What a worker does: *patience* is by how much more time than others it may take for a step."""

    @property
    def patience(self) -> float:
        """The factor of the time that a step may take."""

    def do(self, context: C) -> object:
        """Do it, in the worker."""


class Opening(Protocol):
    """What makes the context of a worker's tasks, given where its steps are reported. Raises AbsentError."""

    def __call__(self, progress: Progress) -> object: ...


@dataclass(frozen=True)
class Done:
    """A task that was done, and what came of it."""

    value: object


@dataclass(frozen=True)
class Lost:
    """A task whose worker crashed, or was ended since it *hung*: at which step, and a sentence."""

    step: str
    text: str
    hung: bool = False


@dataclass(frozen=True)
class TimeOver:
    """A task that was under way when the time was over."""


Ended = Done | Lost | TimeOver


@dataclass
class _Member:
    process: ChildProcess
    time: OwnTime  # without a word
    key: int | None = None  # of the task that it has
    task: Task[Any] | None = None
    limit: float = 0.0  # seconds without a word
    step: str = ""
    is_ready: bool = False
    turn: int = 1  # how often the task was given to a worker

    @classmethod
    def of(cls, process: ChildProcess) -> _Member:
        """That of *process*, which was just started."""
        return cls(process, OwnTime(process.pid))

    @property
    def is_over(self) -> bool:
        """Whether it had its seconds without a word: those of its task, before that those of its start."""
        return self.time.is_over(self.limit if self.is_ready else START_SECONDS)


class WorkerPool:
    """As many as *count* workers whose contexts *opening* makes; *limit* are seconds without a word from one.

    Of these seconds those do not count in which a worker was stopped or without a processor (``own_time.py``); where
    there were many, a task that did not end is given to another worker once. A worker is a new process; where *opening*
    is not possible in one, or cannot be sent there, this process is forked, and ``forked`` says why. *forked* says so
    from the beginning.
    """

    def __init__(self, opening: Opening, count: int, limit: float, forked: str = ""):
        self._opening, self._count, self._limit = opening, max(1, count), limit
        self._members: list[_Member] = []
        self._expected = 0  # tasks of the next run
        self.forked = forked
        try:
            pickle.dumps(opening)
        except Exception as error:  # of whatever an option of the vendor's is
            self.forked = f"what it is given cannot be sent to another process ({error})"

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all workers; the next task starts others."""
        while self._members:
            self._members.pop().process.end()

    def expect(self, count: int) -> None:
        """Start as many workers as *count* tasks are worth as soon as the first of the next run comes."""
        self._expected = count

    def one(self, task: Task[C], deadline: float | None = None) -> Ended:
        """What becomes of one task."""
        return next(self.run([(0, task)], deadline))[1]

    def run(self, tasks: Iterable[tuple[int, Task[C]]], deadline: float | None = None) -> Iterator[tuple[int, Ended]]:
        """What becomes of each of *tasks*, which have keys, as they end; they are taken when a worker is free.

        After *deadline* (of ``time.monotonic()``) none is taken any more. Raises InternalError for a task that raises.
        """
        source, given = iter(tasks), 0
        expected, self._expected = self._expected, 0  # by this run alone
        has_more = True
        while True:
            while has_more and (deadline is None or time.monotonic() < deadline):
                member = self._free(max(given, expected))
                if member is None:
                    break
                found = next(source, None)
                if found is None:
                    has_more = False
                    break
                self._give(member, *found)
                given += 1
            else:
                has_more = False
            busy = [m for m in self._members if m.key is not None]
            if not busy:
                return
            yield from self._ended(busy, deadline)

    def _give(self, member: _Member, key: int, task: Task[C], turn: int = 1) -> None:
        member.key, member.task, member.turn = key, task, turn
        if member.is_ready:
            member.step = ""
        member.time.begin()
        member.limit = self._limit * task.patience
        try:
            member.process.pipe.send(task)
        except (BrokenPipeError, ConnectionResetError):  # it died between two tasks, of which this is not the fault
            self._give_again(member, key, task, turn)

    def _give_again(self, member: _Member, key: int, task: Task[C], turn: int) -> None:
        """Another worker has the task of *member*; until it is ready, the step is the one that was known."""
        fresh = self._replaced(member)
        fresh.step = member.step
        self._give(fresh, key, task, turn)

    def _ended(self, busy: list[_Member], deadline: float | None) -> Iterator[tuple[int, Ended]]:
        ready = wait([m.process.pipe for m in busy], timeout=0.5)
        now = time.monotonic()
        for member in busy:
            ended: Ended | None = None
            key = member.key
            assert key is not None
            if member.process.pipe in ready:
                ended = self._received(member)
            elif member.is_over:
                ended = self._hung(member)
            elif deadline is not None and now > deadline + GRACE_SECONDS:
                ended = self._lost(member, TimeOver())
            if ended is not None:
                member.key = None
                yield key, ended

    def _hung(self, member: _Member) -> Ended | None:
        """What is known of a task that came to no end; None where another worker has it now."""
        if not member.is_ready:
            return self._lost(member, _not_started(member))
        if member.turn < MOST_TURNS and member.time.was_held_up:
            assert member.key is not None and member.task is not None
            self._give_again(member, member.key, member.task, member.turn + 1)
            return None
        first, *others = member.process.places() or [""]
        text = f"{NO_END} after {member.limit:g} s{f' ({first})' if first else ''}"
        twice = "tried twice, since its worker was stopped or without a processor" if member.turn > 1 else ""
        threads = f"other threads of Python at {_counted(others)}" if others else ""
        parts = [twice, member.time.text, threads, standing(member.process.pid)]
        return self._lost(member, Lost(member.step, "; ".join([text, *(p for p in parts if p)]), True))

    def _received(self, member: _Member) -> Ended | None:
        """What a message means; None where it ends nothing."""
        try:
            word, value = member.process.pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            how = member.process.wait()
            place = member.process.place()
            return self._lost(member, Lost(member.step, f"{how}{f' ({place})' if place else ''}"))
        member.time.begin()
        if word == STEP:
            member.step = value
            return None
        if word == READY:  # one that was given its task before it was; the task begins now
            member.is_ready, member.step = True, ""
            return None
        if word == ABSENT:
            return self._lost(member, Lost(member.step, f"no worker can be started: {value}"))
        if word == FAILED:
            raise InternalError(f"a worker: {value}")
        return Done(value)

    def _lost(self, member: _Member, ended: Ended) -> Ended:
        self._replaced(member)
        return ended

    def _replaced(self, member: _Member) -> _Member:
        """Another worker in the place of *member*, which is ended."""
        member.process.end()
        self._members[self._members.index(member)] = fresh = _Member.of(self._started())
        return fresh

    def _free(self, tasks: int) -> _Member | None:
        """A worker without a task; new ones where there are few, as many as *tasks* are worth. One that is not
        ready yet is waited for where no other is at work.
        """
        is_busy = any(m.key is not None for m in self._members)
        for member in sorted((m for m in self._members if m.key is None), key=lambda m: not m.is_ready):
            if is_busy and not member.is_ready and not member.process.pipe.poll(0):
                continue
            if self._is_usable(member):
                return member
            member.process.end()
            self._members.remove(member)
        if len(self._members) < min(self._count, 1 + tasks // TASKS_A_WORKER):
            self._members.append(_Member.of(self._started()))
            return self._free(tasks)
        return None

    def _is_usable(self, member: _Member) -> bool:
        """Wait until *member* is ready; where it cannot be, workers are forked from now on."""
        if member.is_ready:
            return True
        try:
            if not member.process.answers_within(START_SECONDS):
                raise UserError(f"a worker is not ready after {START_SECONDS:g} s; is this machine very busy?")
            word, value = member.process.pipe.recv()
        except (EOFError, OSError):
            word, value = ABSENT, member.process.wait()
        member.is_ready = word == READY
        if not member.is_ready:
            if self.forked:
                raise UserError(f"no worker can be started: {value}")
            self.forked = str(value)
        return member.is_ready

    def _started(self) -> ChildProcess:
        if self.forked:
            return ChildProcess(partial(serve, self._opening))
        process = ChildProcess()
        process.pipe.send(partial(serve, self._opening))
        return process


def _not_started(member: _Member) -> Lost:
    """What is known of a task that waits for a worker which does not begin."""
    place = member.process.place()
    late = f"not ready after {START_SECONDS:g} s{f' ({place})' if place else ''}"
    if member.turn == 1:
        return Lost(member.step, f"no worker can be started: it is {late}")
    again = f"another worker, which was to try it again, is {late}"
    return Lost(member.step, f"{NO_END} after {member.limit:g} s; {again}", True)


def _counted(places: Sequence[str]) -> str:
    """Places, each once, with how many threads are there."""
    return "; ".join(f"{place} ({count} times)" if count > 1 else place for place, count in Counter(places).items())


def serve(opening: Opening, pipe: Connection) -> None:
    """What a worker does: tasks until nobody is at the other end."""
    try:
        context = opening(lambda step: pipe.send((STEP, step)))
    except AbsentError as error:
        pipe.send((ABSENT, str(error)))
        return
    pipe.send((READY, ""))
    while True:
        try:
            task: Task[object] = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            message = (DONE, task.do(context))
        except Exception as error:  # a mistake of ours, which the other side raises
            message = (FAILED, f"{type(error).__name__}: {error}")
        pipe.send(message)
