"""The time that a process had for itself, and where its threads stand: what Linux's ``/proc`` says of it.

A worker that is stopped, or waits for a processor that other programs have, says nothing either, and is no vendor's
fault. So a limit is held against the time in which it could have gone on: what went by, without what it (or a process
that it started, such as a compiler) was stopped or without a processor. A thread that waits while others of the same
process compute takes no time from it. Elsewhere than on Linux it is what went by.
Source: ``Documentation/scheduler/sched-stats.rst`` of Linux.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

MOST_COUNTED = 2.0  # seconds between two looks: who looks may have been without a processor too
BETWEEN_LOOKS = 0.2
MOST_TIMES = 10.0  # the limit, by the clock, however long it is stopped
HELD_UP = 0.1  # the part of the time, stopped or without a processor, from which on that is worth another try
NANOSECONDS = 1e9
PROC = Path("/proc")
ThreadKey = tuple[int, int]  # the numbers of its process and of itself
STATES = {"R": "running", "S": "asleep", "D": "waiting for a disk", "T": "stopped", "t": "stopped", "Z": "over"}


@dataclass
class OwnTime:
    """How long the process *pid* has been at something, since :meth:`begin`: by the clock, and of its own."""

    pid: int
    seconds: float = 0.0  # of its own
    elapsed: float = 0.0
    _last: float = field(default_factory=time.monotonic)
    _threads: dict[ThreadKey, tuple[float, float]] = field(default_factory=dict)
    _computed: float = 0.0

    def begin(self) -> None:
        """Count from now on."""
        self.seconds = self.elapsed = self._computed = 0.0
        self._last = time.monotonic()
        self._threads = {}

    def is_over(self, limit: float) -> bool:
        """Look at the process: whether it had *limit* seconds of its own."""
        now = time.monotonic()
        passed = now - self._last
        if passed < min(BETWEEN_LOOKS, limit / 2):
            return False
        self._last = now
        self.elapsed += passed
        pids = _with_children(self.pid)
        before, self._threads = self._threads, _threads_of(pids)
        spent = {
            key: (self._threads[key][0] - c, self._threads[key][1] - w)
            for key, (c, w) in before.items()
            if key in self._threads
        }
        self._computed += sum(computed for computed, _ in spent.values())
        if not any(_state(pid) == "stopped" for pid in pids):
            self.seconds += max(min(passed, MOST_COUNTED) - _without_processor(passed, spent), 0.0)
        return self.seconds > limit or self.elapsed > MOST_TIMES * limit

    @property
    def was_held_up(self) -> bool:
        """Whether it was stopped or without a processor for a good part of the time."""
        return self.elapsed - self.seconds > HELD_UP * self.elapsed

    @property
    def text(self) -> str:
        """What it did meanwhile, in words; empty where that is not known."""
        if not self._threads:
            return ""
        lost = self.elapsed - self.seconds
        text = f"it computed for {self._computed:.1f} s of them"
        return f"{text}, and was stopped or without a processor for {lost:.0f} s more" if self.was_held_up else text


def standing(pid: int) -> str:
    """How the threads of a process stand, and the processes that it started, in words; empty where it is not known."""
    found = Counter(f"{_state(pid, task)}{_waits_in(pid, task)}" for task in _tasks(pid))
    if not found:
        return ""
    parts = [f"{count} {state}" for state, count in found.most_common()]
    text = f"of its {sum(found.values())} threads {', '.join(parts)}" if sum(found.values()) > 1 else parts[0][2:]
    others = [f"{_read(PROC / str(p) / 'comm').strip()} is {_state(p)}" for p in _with_children(pid) if p != pid]
    return "; ".join([f"it is {text}" if sum(found.values()) == 1 else text, *dict.fromkeys(others)])


def _with_children(pid: int) -> list[int]:
    """*pid*, and all processes that it and these started."""
    found = [pid]
    for one in found:
        for task in _tasks(one):
            found += map(int, _read(PROC / str(one) / "task" / str(task) / "children").split())
    return found


def _tasks(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(PROC / str(pid) / "task")]
    except OSError:
        return []


def _threads_of(pids: list[int]) -> dict[ThreadKey, tuple[float, float]]:
    """The seconds that each thread computed, and waited for a processor."""
    found = {}
    for pid in pids:
        for task in _tasks(pid):
            numbers = _read(PROC / str(pid) / "task" / str(task) / "schedstat").split()
            if len(numbers) >= 2:
                found[pid, task] = (int(numbers[0]) / NANOSECONDS, int(numbers[1]) / NANOSECONDS)
    return found


def _without_processor(passed: float, spent: Mapping[ThreadKey, tuple[float, float]]) -> float:
    """For how much of *passed* seconds no thread computed though one could have, of what each computed and waited.

    No more than one thread waited, and no more than what is left of the time in which at least one computed: as long as
    the one that computed most, or as all together on the processors that they may use.
    """
    runnable = {thread: times for thread, times in spent.items() if any(times)}
    if not runnable:
        return 0.0
    most = max(computed for computed, _ in runnable.values())
    together = sum(computed for computed, _ in runnable.values()) / _processors(runnable)
    return min(max(waited for _, waited in runnable.values()), max(passed - max(most, together), 0.0))


def _processors(threads: Iterable[ThreadKey]) -> int:
    """How many processors these threads may use, 1 at least."""
    found: set[int] = set()
    for _, task in threads:
        with contextlib.suppress(OSError, AttributeError):  # it has ended; this is not Linux
            found |= os.sched_getaffinity(task)
    return max(len(found), 1)


def _state(pid: int, task: int | None = None) -> str:
    """What Linux says that a thread does, the first one where none is named."""
    words = _read(PROC / str(pid) / "task" / str(pid if task is None else task) / "stat").rpartition(")")[2].split()
    return STATES.get(words[0], words[0]) if words else "gone"


def _waits_in(pid: int, task: int) -> str:
    """In which function of Linux a thread waits, in brackets."""
    name = _read(PROC / str(pid) / "task" / str(task) / "wchan").strip()
    return f" ({name})" if name not in ("", "0") else ""


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended, or this is not Linux
        return ""
