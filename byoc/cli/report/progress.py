"""Progress of what takes long: a bar on a terminal, after a second, and elsewhere a line from time to time.

Both are on the standard error, so that the standard output holds the result alone.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PATIENCE_SECONDS = 1.0
LINE_SECONDS = 15.0  # between two lines where no terminal is there


class StageProgress:
    """``with StageProgress() as progress: progress("compiling")``: shows the stage.

    On a terminal after a second, and elsewhere, as in a log, by a line every fifteen seconds.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None):
        self._console = console or Console(file=sys.stderr)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=self._console, transient=True)
        self._task = self._progress.add_task("starting", total=None)
        self._stage, self._start = "starting", time.monotonic()
        self._lock = threading.Lock()
        self._quiet, self._over = quiet, threading.Event()
        self._watcher = threading.Thread(
            target=self._show_bar if self._console.is_terminal else self._write_lines, daemon=True
        )

    def __enter__(self) -> StageProgress:
        if not self._quiet:
            self._watcher.start()
        return self

    def __call__(self, stage: str) -> None:
        """Say which stage begins."""
        self._stage = stage
        self._progress.update(self._task, description=stage)

    def _show_bar(self) -> None:
        if self._over.wait(PATIENCE_SECONDS):
            return
        with self._lock:
            if not self._over.is_set():
                self._progress.start()

    def _write_lines(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    print(
                        f"{self._stage} ({time.monotonic() - self._start:.0f} s)", file=self._console.file, flush=True
                    )
                except (OSError, ValueError):  # nobody reads it any more
                    return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._lock:
            if self._progress.live.is_started:
                self._progress.stop()
