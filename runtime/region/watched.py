"""A process that waits for the end of this one, and says in one sentence what vendor's code was running, if any was.

``byoc run`` asks for it. What runs stands in memory that both share.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import signal
import sys
import threading
from collections.abc import Iterator

from byoc.runtime.region.record import reporting_running

SIZE = 4096  # bytes of the record: a length of two bytes, and the text


class RunningRecord:
    """What runs now on each thread, in memory that a forked process shares."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, SIZE)
        self._running: dict[int, str] = {}
        self._lock = threading.Lock()

    def set(self, text: str | None) -> str | None:
        """This thread is at *text*, or at nothing; returns what it was at before."""
        with self._lock:
            before = self._running.pop(threading.get_ident(), None)
            if text is not None:
                self._running[threading.get_ident()] = text
            content = " and ".join(self._running.values()).encode()[: SIZE - 2]
            self._memory[2 : 2 + len(content)] = content
            self._memory[:2] = len(content).to_bytes(2, "little")
        return before

    def text(self) -> str:
        """What runs, in words; empty where nothing does."""
        size = int.from_bytes(self._memory[:2], "little")
        return self._memory[2 : 2 + size].decode(errors="replace")


@contextlib.contextmanager
def watched(command: str) -> Iterator[None]:
    """Have a process say what was running, if this one dies meanwhile; for the main thread, before others are started.

    *command* begins its sentence, on the standard error. Where processes cannot be forked, nobody watches.
    """
    if not hasattr(os, "fork") or threading.active_count() > 1:
        yield
        return
    record = RunningRecord()
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _watch(command, record, reader, writer)
    os.close(reader)
    try:
        with reporting_running(record.set):
            yield
    finally:
        os.close(writer)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


def _watch(command: str, record: RunningRecord, reader: int, writer: int) -> None:
    """Wait until the parent is gone, and say what it was at; never returns."""
    try:
        os.close(writer)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the parent's end is waited for
        os.read(reader, 1)
        if text := record.text():
            os.write(2, f"{command}: the process died while {text}\n".encode())
    finally:
        os._exit(0)
