"""Batches in a process of their own: a candidate that crashes or never ends is reported as such, and the others go on.

One process serves many batches; a new one is started after one was lost.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from multiprocessing.connection import Connection
from types import TracebackType

from byoc.codegen.tune.trial_batch import AnyTrialBatch, Outcome
from byoc.codegen.tune.worker import DONE, RUNNING

MODULE = "byoc.codegen.tune.worker"
LIMIT_SECONDS = 20.0  # without a word from the process: some runs of one candidate, which take milliseconds each
START_SECONDS = 60.0  # until it says the first word: Python starts, and the batch is sent


@dataclass(frozen=True)
class _Lost:
    """The process is gone, or was ended: why, and with which candidate, where one had begun."""

    reason: str
    number: int | None


class WorkerProcess:
    """A process for batches, started with the first of them. A context, at whose end it is ended.

    *limit* are the seconds that some runs of a candidate may take.
    """

    def __init__(self, limit: float = LIMIT_SECONDS):
        self.limit = limit
        self.started = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection | None = None

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def run(self, batch: AnyTrialBatch) -> list[Outcome]:
        """What became of each candidate of *batch*; the batch begins anew without one that crashed or did not end."""
        outcomes: dict[int, Outcome] = {}
        left = list(range(len(batch.compiled)))
        while left:
            found = self._attempt(batch.only(left))
            if isinstance(found, _Lost) and found.number is not None:
                outcomes[left.pop(found.number)] = f"failed: {found.reason}"
                continue
            given = [f"failed: {found.reason}"] * len(left) if isinstance(found, _Lost) else found
            outcomes.update(zip(left, given, strict=True))
            left = []
        return [outcomes[k] for k in range(len(batch.compiled))]

    def _attempt(self, batch: AnyTrialBatch) -> list[Outcome] | _Lost:
        number: int | None = None
        try:
            connection = self._started()
            connection.send(batch)
            wait = START_SECONDS
            while connection.poll(wait):
                word, value = connection.recv()
                if word != RUNNING:
                    return value if word == DONE else _Lost(value, number)
                number, wait = value, self.limit
        except (EOFError, OSError) as error:
            return _Lost(self._end() or f"the process for measuring does not start: {error}", number)
        if self._process is not None:
            self._process.kill()
        self._end()
        return _Lost(f"it did not end within {wait:g} s", number)

    def _started(self) -> Connection:
        """The connection to the process. Raises OSError where none can be started."""
        if self._connection is None:
            ours, theirs = multiprocessing.Pipe()
            paths = [os.path.abspath(p) for p in sys.path if p]
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable or "", "-m", MODULE, str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            self._connection = ours
            self.started += 1
        return self._connection

    def _end(self) -> str:
        """End the process. Returns how it had ended by itself; empty where it had not, or where there was none."""
        process, connection = self._process, self._connection
        self._process = self._connection = None
        if connection is not None:
            connection.close()
        if process is None:
            return ""
        try:
            status = process.wait(1.0)  # it ends by itself when nobody is at the other end
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return ""
        return f"it crashed ({signal.Signals(-status).name})" if status < 0 else f"it ended with the status {status}"
