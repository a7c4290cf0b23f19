"""Commands of other programs, compilers above all, which may hang, crash, or say anything.

Each runs in a process group of its own with a limit of time, and the group is killed at the limit, or when whoever
waits is interrupted. What it says goes to memory, is read as UTF-8 with anything else replaced, and is in English.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

_MOST_OUTPUT = 1 << 24  # bytes that are read of what a command says
_LOOK = 1.0  # seconds between two looks at a process whose end the kernel should report
_LAST_WAIT = 10.0  # seconds for the kernel to end what was killed


class CommandError(Exception):
    """A command that could not be started, or was killed: the text says which, after its name."""


@dataclass(frozen=True)
class Finished:
    """How a command ended: its exit status (below 0: the signal), and what it said."""

    status: int
    output: str

    @property
    def ending(self) -> str:
        """The status in words."""
        if self.status >= 0:
            return f"exit status {self.status}"
        with contextlib.suppress(ValueError):
            return f"it was ended by {signal.Signals(-self.status).name}"
        return f"it was ended by signal {-self.status}"


class Commands:
    """Commands that belong together. A context, at whose end by an error those still running are killed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def __enter__(self) -> Commands:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self.end()

    def end(self) -> None:
        """Kill what runs, and start no other."""
        with self._lock:
            self._ended = True
            running = list(self._running)
        for process in running:
            _kill_group(process)

    def run(self, command: Sequence[str], limit: float, folder: Path | None = None) -> Finished:
        """Run *command* for at most *limit* seconds; its temporary files go to *folder*. Raises CommandError.

        What it says, to whichever stream, is one text: a descriptor less where a process may have few.
        """
        variables = {**os.environ, "LC_ALL": "C", **({"TMPDIR": str(folder)} if folder else {})}
        try:
            with _memory() as said:
                process = self._start(command, variables, said)
                try:
                    _wait(process, limit)
                finally:
                    with self._lock:
                        self._running.discard(process)
                    if process.returncode is None:
                        _kill_group(process)
                return Finished(process.returncode, _text(said))
        except (OSError, ValueError) as error:  # ValueError: a null character in a word of $CC
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise CommandError(f"cannot be started: {reason}") from error

    def _start(self, command: Sequence[str], variables: Mapping[str, str], said: BinaryIO) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._ended:
                raise CommandError("was not started, since another failed")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=variables,
                start_new_session=True,
            )
            self._running.add(process)
        return process


def run_command(command: Sequence[str], limit: float) -> Finished:
    """Run one *command* for at most *limit* seconds. Raises CommandError."""
    return Commands().run(command, limit)


def _wait(process: subprocess.Popen[bytes], limit: float) -> None:
    """Raises CommandError when the process does not end in time."""
    deadline = time.monotonic() + limit
    opened = getattr(os, "pidfd_open", None)
    if opened is not None and hasattr(select, "poll"):
        with contextlib.suppress(OSError):  # no descriptor left: wait by looking again and again
            _wait_for_descriptor(opened(process.pid), process, deadline)
    try:
        process.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"did not end within {limit:g} s") from error


def _wait_for_descriptor(descriptor: int, process: subprocess.Popen[bytes], deadline: float) -> None:
    """Until the process of a descriptor ended; the kernel wakes this thread at once.

    The process is looked at each second as well, for a kernel that reports no end.
    """
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        while time.monotonic() < deadline and process.poll() is None:
            if poll.poll(min(max(deadline - time.monotonic(), 0.0), _LOOK) * 1e3):
                return
    finally:
        os.close(descriptor)


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:  # its number may be another's by now
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):  # in the kernel's hands, such as on a dead network disk
        process.wait(_LAST_WAIT)


def _memory() -> BinaryIO:
    """A file that lies in memory where the system has such, and has no name elsewhere."""
    if hasattr(os, "memfd_create"):
        with contextlib.suppress(OSError):
            return os.fdopen(os.memfd_create("byoc-output", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile()


def _text(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(_MOST_OUTPUT).decode(errors="replace")
