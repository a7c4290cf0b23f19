"""Progress of what takes long: a bar on a terminal, after a second, and elsewhere a line from time to time.

Both are on the standard error, so that the standard output holds the result alone. Where rich, which draws the bar, is
not installed, as beside the runtime alone, a terminal gets the lines.
"""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

PATIENCE_SECONDS = 1.0
LINE_SECONDS = 15.0  # between two lines where no terminal is there


class StageProgress:
    """``with StageProgress() as progress: progress("compiling")``: shows the stage.

    On a terminal after a second, and elsewhere, as in a log, by a line every fifteen seconds.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None):
        self._file = sys.stderr if console is None else console.file
        self._bar = None if console is None and (quiet or not self._file.isatty()) else _bar(console)
        self._stage, self._start = "starting", time.monotonic()
        self._lock = threading.Lock()
        self._quiet, self._over = quiet, threading.Event()
        self._watcher = threading.Thread(target=self._write_lines if self._bar is None else self._show_bar, daemon=True)

    def __enter__(self) -> StageProgress:
        if not self._quiet:
            self._watcher.start()
        return self

    def __call__(self, stage: str) -> None:
        """Say which stage begins."""
        self._stage = stage
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], description=stage)

    def _show_bar(self) -> None:
        if self._over.wait(PATIENCE_SECONDS):
            return
        with self._lock:
            if not self._over.is_set() and self._bar is not None:
                self._bar.start()

    def _write_lines(self) -> None:
        while not self._over.wait(LINE_SECONDS):
            with self._lock:
                if self._over.is_set():
                    return
                try:
                    print(f"{self._stage} ({time.monotonic() - self._start:.0f} s)", file=self._file, flush=True)
                except (OSError, ValueError):  # nobody reads it any more
                    return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        with self._lock:
            if self._bar is not None and self._bar.live.is_started:
                self._bar.stop()


def _bar(console: Console | None) -> Progress | None:
    """The bar on *console*, the standard error where it is None; None where that is no terminal, or without rich."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
    except ModuleNotFoundError:
        return None
    place = console or Console(file=sys.stderr)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=place, transient=True)
    bar.add_task("starting", total=None)
    return bar if place.is_terminal else None
