"""Work in processes of its own: a team of them, a time limit for each piece, a crash that costs one piece alone.

The processes are forked, so that what was computed before (the suite's data) is there without being made again.
Nothing that a fork leaves behind (an OpenCL context) may have been opened before.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess
from typing import Generic, TypeVar, cast

Piece = TypeVar("Piece")
Found = TypeVar("Found")

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class LostProcess:
    """How a process was lost in the middle of a piece: *reason* is a signal, an exit code, or the time limit."""

    reason: str


class _Watch:
    """The time in which this process was there to look: while all are stopped, or the machine sleeps, none passes."""

    def __init__(self) -> None:
        self.now, self._last = 0.0, time.monotonic()

    def tick(self) -> None:
        """Look at the clock; a second at most has passed."""
        last, self._last = self._last, time.monotonic()
        self.now += min(self._last - last, 1.0)


@dataclass
class _Member(Generic[Found]):
    """A process, its pipe, and the number of the piece that it has since a time."""

    process: ForkProcess
    pipe: Connection
    piece: int
    since: float

    def give(self, piece: int, now: float) -> None:
        self.piece, self.since = piece, now
        self.pipe.send(piece)

    def end(self) -> str:
        """Kill the process where it has not ended, with all that it started; else how it ended."""
        code = self.process.exitcode
        if code is None:
            os.killpg(cast("int", self.process.pid), signal.SIGKILL)
            self.process.join()
        self.pipe.close()
        if code is not None and code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with code {code}"


def in_team(
    work: Callable[[Piece], Found], pieces: Sequence[Piece], jobs: int, seconds: float
) -> Iterator[tuple[Piece, Found | LostProcess]]:
    """*work* on each of *pieces* in *jobs* processes; what is found must be picklable.

    Yields:
        Each piece as it is done, with what was found, or with how its process was lost: after more than *seconds*, or
        by itself. Another process takes its place.
    """
    left = list(reversed(range(len(pieces))))
    team: list[_Member[Found]] = []
    watch = _Watch()
    try:
        while left or team:
            while left and len(team) < jobs:
                member = _started(work, pieces, [m.pipe for m in team])
                member.give(left.pop(), watch.now)
                team.append(member)
            ready = wait([m.pipe for m in team], timeout=0.2)
            watch.tick()
            for member in list(team):
                found: Found | LostProcess
                if member.pipe in ready:
                    found = _received(member)
                elif watch.now - member.since > seconds:
                    member.end()
                    found = LostProcess(f"stopped after {seconds:g} s")
                else:
                    continue
                piece = member.piece
                if isinstance(found, LostProcess) or not left:
                    team.remove(member)
                    if not isinstance(found, LostProcess):
                        member.end()
                else:
                    member.give(left.pop(), watch.now)
                yield pieces[piece], found
    finally:
        for member in team:
            member.end()


def _received(member: _Member[Found]) -> Found | LostProcess:
    try:
        found: Found = member.pipe.recv()
    except (EOFError, ConnectionError):
        member.process.join(timeout=5.0)
        return LostProcess(member.end())
    return found


def _started(work: Callable[[Piece], Found], pieces: Sequence[Piece], others: Sequence[Connection]) -> _Member[Found]:
    here, there = _FORK.Pipe()
    process = _FORK.Process(target=_serve, args=(work, pieces, there, [here, *others]), daemon=True)
    process.start()
    with contextlib.suppress(OSError):  # both do it, so that none comes too late
        os.setpgid(cast("int", process.pid), 0)
    there.close()
    return _Member(process, here, -1, 0.0)


def _serve(
    work: Callable[[Piece], Found], pieces: Sequence[Piece], pipe: Connection, others: Sequence[Connection]
) -> None:
    """Do what the pipe names until it is closed. The ends of the parent are closed here, so that it can close them."""
    os.setpgid(0, 0)  # compilers that are started belong to it, and end with it
    for other in others:
        other.close()
    while True:
        try:
            piece = pipe.recv()
        except EOFError:
            return
        pipe.send(work(pieces[piece]))


__all__ = ["LostProcess", "in_team"]
