"""A process of our own that may die: started anew, or forked where a new one could not know what this one does.

A forked process has what was typed at a prompt or made by a function, and also what a started device left behind; so
it is the second choice. Each is the first of its own session: what it starts ends with it, and an interruption at the
terminal is for the process that started it alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import multiprocessing
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

from byoc.testing.core.own_time import OwnTime

DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux: the kernel ends a process whose parent is gone
TRACE = "trace.txt"  # in its folder: where Python was when it crashed, or was asked
OF_THREAD = re.compile(r"^(?P<head>Current thread|Thread|Stack) .*most recent call first.*$", re.MULTILINE)
FRAME = re.compile(r'File "(?P<file>[^"]*)", line (?P<line>\d+) in (?P<name>\S+)')
ASK = signal.SIGUSR1  # has it write where it is
LIBRARY = os.path.dirname(os.__file__)  # Python's own modules
ASK_SECONDS = 0.5  # in which it has written that
SETTLED_SECONDS = 0.2  # without another line, after which it has
END_SECONDS = 10.0
POLL_SECONDS = 0.5
Serve = Callable[[Connection], None]


class ChildProcess:
    """A process at the other end of ``pipe``, with a folder for its temporary files."""

    def __init__(self, serve: Serve | None = None):
        """Start one; *serve* is what a forked process calls, without it a new one is started that runs :func:`main`."""
        self.folder = Path(tempfile.mkdtemp(prefix="byoc_worker_"))
        self.pipe, theirs = multiprocessing.Pipe()
        self._status: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        with theirs:
            if serve is None:
                self._process = self._spawned(theirs)
                self.pid = self._process.pid
            else:
                self.pid = self._forked(serve, theirs)

    def _spawned(self, theirs: Connection) -> subprocess.Popen[bytes]:
        number, paths = theirs.fileno(), [os.path.abspath(p) for p in sys.path if p]
        code = f"from {__name__} import main; main({number}, {str(self.folder)!r})"
        return subprocess.Popen(
            [sys.executable, "-c", code],
            pass_fds=[number],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a vendor's code prints is no part of what a command prints
            start_new_session=True,
        )

    def _forked(self, serve: Serve, theirs: Connection) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which are not in the child
            pid = os.fork()
        if pid:
            return pid
        try:
            self.pipe.close()
            os.setsid()
            os.dup2(2, 1)
            let_go(theirs.fileno())
            prepare(self.folder)
            serve(theirs)
        finally:
            os._exit(0)

    def place(self) -> str:
        """Where its Python code is or was, as ``file.py:12, name``; empty where that is not known."""
        return next(iter(self.places()), "")

    def places(self) -> list[str]:
        """Where the Python code of each of its threads is, or of the one that crashed was; its main thread's first."""
        if self._status is None:
            with contextlib.suppress(ProcessLookupError):
                before = self._traced()
                os.kill(self.pid, ASK)
                self._wait_for_trace(before)
        try:
            text = (self.folder / TRACE).read_text(errors="replace")
        except OSError:
            return []
        heads = list(OF_THREAD.finditer(text))
        ends = [*(head.start() for head in heads), len(text)][1:]
        parts = [(head["head"] == "Thread", text[head.end() : end]) for head, end in zip(heads, ends, strict=True)]
        found = [_place(part) for _, part in sorted(parts, key=lambda item: item[0])]
        return [place for place in found if place]

    def _traced(self) -> int:
        """The bytes of its trace; none for one that has not begun one."""
        try:
            return (self.folder / TRACE).stat().st_size
        except OSError:
            return 0

    def _wait_for_trace(self, size: int) -> None:
        """Until the trace, of *size* bytes before, is longer and stays so for a while, or its time is over."""
        before, changed = size, time.monotonic()
        until = changed + ASK_SECONDS
        while time.monotonic() < until and (size == before or time.monotonic() < changed + SETTLED_SECONDS):
            time.sleep(0.01)
            written = self._traced()
            if written != size:
                size, changed = written, time.monotonic()

    def answers_within(self, seconds: float) -> bool:
        """Whether it says something, or ends, before it had *seconds* for itself (``own_time.py``)."""
        time_of_its_own = OwnTime(self.pid)
        while not self.pipe.poll(min(POLL_SECONDS, seconds)):
            if time_of_its_own.is_over(seconds):
                return self.pipe.poll(0)
        return True

    def wait(self, seconds: float = END_SECONDS) -> str:
        """Wait until it has ended, which is asked where its end of ``pipe`` is closed; returns how, in words.

        One that has not after *seconds* is ended.
        """
        until = time.monotonic() + seconds
        while not self._has_ended():
            if time.monotonic() > until:
                self.end()
                return "its process closed its connection and did not end"
            time.sleep(0.01)
        assert self._status is not None
        if self._status >= 0:
            return f"its process ended itself with the exit code {self._status}"
        return f"its process crashed with {signal.Signals(-self._status).name}"

    def _has_ended(self) -> bool:
        if self._status is None and self._process is not None:
            self._status = self._process.poll()
        elif self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = os.waitstatus_to_exitcode(status) if pid else None
        return self._status is not None

    def end(self) -> None:
        """End it, with all that it started, and remove its folder."""
        if self._status is None:
            try:
                os.killpg(self.pid, signal.SIGKILL)
            except ProcessLookupError:  # it is not the first of its session yet
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            while not self._has_ended():
                time.sleep(0.001)
        self.pipe.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _place(trace: str) -> str:
    """The last line of the vendor's or of ours in a *trace* of one thread; empty for a trace without lines."""
    frames = list(FRAME.finditer(trace))
    own = (f for f in frames if not f["file"].startswith(LIBRARY) or "site-packages" in f["file"])
    found = next(own, frames[0] if frames else None)  # not ctypes, which called the native code
    return f"{Path(found['file']).name}:{found['line']}, {found['name']}" if found else ""


def let_go(keep: int) -> None:
    """Put the null device in the place of each pipe and socket that was inherited, but for *keep* and the streams.

    Who waits for the end of such a pipe waits for all that hold it: as long as this process lives, where it did not
    let go. Their numbers stay taken, since objects of the parent's will close them.
    """
    null = os.open(os.devnull, os.O_RDWR)
    for number in (int(name) for name in os.listdir("/dev/fd")):
        if number > 2 and number != keep:
            with contextlib.suppress(OSError):  # the folder's own is closed by now
                mode = os.fstat(number).st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                    os.dup2(null, number, inheritable=False)
    os.close(null)


def prepare(folder: Path) -> None:
    """What such a process does first: it ignores interruptions, ends with its parent, and reports where it was."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL)
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    trace = open(folder / TRACE, "w")  # noqa: SIM115 - open as long as the process lives
    faulthandler.enable(trace, all_threads=False)
    faulthandler.register(ASK, trace, all_threads=True)


def main(number: int, folder: str) -> None:
    """The entry of a process that was started anew: the first message is the function that serves the connection."""
    prepare(Path(folder))
    pipe = Connection(number)
    serve: Serve = pipe.recv()
    serve(pipe)
