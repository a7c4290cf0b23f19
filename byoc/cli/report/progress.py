"""A progress bar for what takes longer than a second, where a terminal is there to show it.

The bar is on the standard error, so that the standard output holds the result alone.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PATIENCE_SECONDS = 1.0


class StageProgress:
    """``with StageProgress() as progress: progress("compiling")``: shows the stage.

    After a second, and only on a terminal.
    """

    def __init__(self, quiet: bool = False, console: Console | None = None):
        console = console or Console(file=sys.stderr)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task = self._progress.add_task("starting", total=None)
        self._lock = threading.Lock()
        self._over = quiet or not console.is_terminal
        self._timer = threading.Timer(PATIENCE_SECONDS, self._show)
        self._timer.daemon = True

    def __enter__(self) -> StageProgress:
        if not self._over:
            self._timer.start()
        return self

    def __call__(self, stage: str) -> None:
        """Say which stage begins."""
        self._progress.update(self._task, description=stage)

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._progress.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._progress.live.is_started:
                self._progress.stop()
