"""An end of ``byoc run`` where code that is running does not come back to be asked whether to go on.

Generated code looks at the time, and for signals, between two steps; one step may take hours (a product of many
tensors). After the time limit, or Ctrl-C, and a moment in which the run can end by itself, the process ends with one
sentence and the exit code that it would have had. Only a command line does that: a library never ends its process.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

from byoc.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USER
from byoc.runtime.core.time_limit import time_limit, timed_out

MOMENT = 2.0  # seconds
_OWN_PROCESS = ContextVar("own_process", default=False)


@contextlib.contextmanager
def own_process() -> Iterator[None]:
    """What runs inside is the whole of this process: nobody else loses it when it ends."""
    token = _OWN_PROCESS.set(True)
    try:
        yield
    finally:
        _OWN_PROCESS.reset(token)


@contextlib.contextmanager
def ended_in_time(command: str, timeout: float | None) -> Iterator[None]:
    """End :func:`own_process` where what runs inside neither keeps to *timeout* nor notices Ctrl-C, within a moment.

    Args:
        command: what the sentence begins with, as ``byoc run``.
        timeout: in seconds; None for as long as it takes.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not _OWN_PROCESS.get() or not is_main or sys.platform == "win32":
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)  # written by the handler in C, while we are in C
    over = threading.Event()

    def wait() -> None:
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if end is None else max(end - time.monotonic(), 0)
            ready, _, _ = select.select([reader], [], [], left)
            if over.is_set():
                return
            if not ready:
                with time_limit(timeout):
                    sentence, code = str(timed_out()), EXIT_USER
            elif signal.SIGINT in os.read(reader, 256):
                sentence, code = "interrupted; nothing was written", EXIT_INTERRUPTED
            else:
                continue
            if not over.wait(MOMENT):
                print(f"\n{command}: {sentence}", file=sys.stderr, flush=True)
                os._exit(code)
            return

    watcher = threading.Thread(target=wait, name="byoc-run-end", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        signal.set_wakeup_fd(before)
        os.write(writer, b"\0")
        watcher.join()
        os.close(writer)
        os.close(reader)
