"""One process for each architecture, forked from one that has imported everything, with a time limit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

Task = TypeVar("Task")
LONGEST_STEP = 1.0  # seconds that one turn counts at most: while the machine sleeps, or all is stopped, no time passes


def in_processes(
    tasks: list[Task], work: Callable[[Task], None], workers: int, seconds: float, log: Callable[[Task], Path]
) -> Iterator[tuple[Task, str]]:
    """Do *work* on each of *tasks* in a process of its own, at most *workers* at a time; what it prints goes to *log*.

    Yields:
        Each task as it ends, with ``""``, or with how its process was lost (a time limit, a signal).
    """
    running: dict[int, tuple[Task, float]] = {}
    waiting = list(reversed(tasks))
    clock, last = 0.0, time.monotonic()
    while waiting or running:
        while waiting and len(running) < workers:
            task = waiting.pop()
            running[started(task, work, log(task))] = task, clock
        time.sleep(0.05)
        now = time.monotonic()
        clock, last = clock + min(now - last, LONGEST_STEP), now
        for pid, (task, since) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            late = clock - since > seconds
            if not ended and late:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if ended or late:
                del running[pid]
                lost = f"stopped after {seconds:g} s" if not ended else ended_how(status)
                yield task, lost


def ended_how(status: int) -> str:
    """How a process was lost, by its status; nothing where it ended by itself."""
    return f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""


def started(task: Task, work: Callable[[Task], None], log: Path) -> int:
    """The number of a new process, the leader of its own group, that does *work* on *task*."""
    pid = os.fork()
    if pid:
        return pid
    os.setsid()
    log.parent.mkdir(parents=True, exist_ok=True)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    os.dup2(out, 2)
    try:
        work(task)
        os._exit(0)
    except BaseException as err:
        os.write(2, f"{type(err).__name__}: {err}\n".encode())
        os._exit(1)
