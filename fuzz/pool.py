"""Workers side by side: each gets one task after the other; one that dies or hangs is named, and replaced."""

from __future__ import annotations

import multiprocessing
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from fuzz.worker import Task, serve

STEP_LIMIT = 120.0  # seconds that generating, or one configuration, may take
TASKS = 400  # after which a worker is replaced, for what compiled libraries leave in a process
Listener = Callable[[str, Task, tuple, Path], None]  # kind of message, task, message, the worker's folder


@dataclass
class Member:
    """A worker, what it does now, and since when."""

    process: BaseProcess
    pipe: Connection
    folder: Path
    task: Task | None = None
    step: str = ""
    since: float = 0.0
    finished: int = 0
    done: list[str] = field(default_factory=list)


class Pool:
    """So many workers with folders below *scratch*. *listener* gets every message, and crashes and hangs."""

    def __init__(self, workers: int, scratch: Path, listener: Listener):
        self._context = multiprocessing.get_context("spawn")
        self._scratch, self._listener = scratch, listener
        self._count = 0
        self._members = [self._start() for _ in range(workers)]

    def run(self, tasks: Iterator[Task], deadline: float) -> None:
        """Hand out *tasks* until they end or *deadline* (of ``time.monotonic``) is past, then wait for the last."""
        again: list[Task] = []
        while True:
            open_ = time.monotonic() < deadline
            for index, member in enumerate(self._members):
                if member.task is not None or (not open_ and not again):
                    continue
                task = again.pop() if again else next(tasks, None)
                if task is None:
                    continue
                if member.finished >= TASKS:
                    self._end(member)
                    member = self._members[index] = self._start()
                member.task, member.done, member.since, member.step = task, [], time.monotonic(), "starting"
                member.pipe.send(task)
            busy = [m for m in self._members if m.task is not None]
            if not busy:
                return
            for pipe in wait([m.pipe for m in busy], timeout=1.0):
                member = next(m for m in busy if m.pipe is pipe)
                self._receive(member, again)
            for member in busy:
                if member.task is not None and time.monotonic() - member.since > STEP_LIMIT:
                    self._lost(member, "hung", f"no result after {STEP_LIMIT:g} s", again)

    def _receive(self, member: Member, again: list[Task]) -> None:
        try:
            message = member.pipe.recv()
        except (EOFError, ConnectionResetError):
            member.process.join(10)
            self._lost(member, "crashed", f"the process ended with {member.process.exitcode}", again)
            return
        assert member.task is not None
        member.since = time.monotonic()
        if message[0] == "step":
            member.step = message[1]
            return
        if message[0] == "outcome":
            member.done.append(message[1])
        self._listener(message[0], member.task, message[1:], member.folder)
        if message[0] in ("done", "nothing", "broken"):
            member.task = None
            member.finished += 1

    def _lost(self, member: Member, verdict: str, text: str, again: list[Task]) -> None:
        task = member.task
        assert task is not None
        self._listener(verdict, task, (member.step, text), member.folder)
        if ":" in member.step:  # a configuration: the others are still to be run
            again.append(replace(task, done=(*task.done, *member.done, member.step)))
        self._end(member)
        self._members[self._members.index(member)] = self._start()

    def _start(self) -> Member:
        self._count += 1
        folder = self._scratch / f"worker-{self._count}"
        pipe, other = self._context.Pipe()
        process = self._context.Process(target=serve, args=(other, str(folder)))
        process.start()
        other.close()
        return Member(process, pipe, folder)

    def _end(self, member: Member) -> None:
        member.pipe.close()
        if member.task is not None:
            member.process.kill()
        member.process.join(20)
        if member.process.is_alive():
            member.process.kill()
            member.process.join()
        shutil.rmtree(member.folder, ignore_errors=True)

    def close(self) -> None:
        """End all workers."""
        for member in self._members:
            self._end(member)
        self._members = []
