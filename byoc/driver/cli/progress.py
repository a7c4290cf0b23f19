"""A progress line for what takes longer than a second, where a terminal is there to show it."""

from __future__ import annotations

import sys
import threading
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PATIENCE_SECONDS = 1.0


class StageProgress:
    """``with StageProgress() as tell: tell("compiling")``: nothing is shown in the first second, nor without a terminal."""

    def __init__(self, quiet: bool = False):
        console = Console(file=sys.stderr)
        self._enabled = console.is_terminal and not quiet
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._stage = "starting"
        self._task = self._progress.add_task(self._stage, total=None)
        self._timer = threading.Timer(PATIENCE_SECONDS, self._progress.start)
        self._timer.daemon = True

    def __enter__(self) -> StageProgress:
        if self._enabled:
            self._timer.start()
        return self

    def __call__(self, stage: str) -> None:
        """Say which stage begins."""
        self._stage = stage
        self._progress.update(self._task, description=stage)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._enabled:
            self._progress.stop()
