"""Running artefacts in a process that has not compiled them: what a user's machine does."""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np

from byoc.contract.backend import Backend
from byoc.errors import UserError
from byoc.runtime.library import Library
from byoc.testing.core.load_worker import Answer, Job
from byoc.testing.core.vendor import vendor_file

START_SECONDS = 60.0  # until the process has imported the runtime
LIMIT = 120.0  # seconds for one artefact
ARTEFACTS = 500  # that one process loads before a new one takes its place


class SavedRunner:
    """Saves libraries and runs them in another process, which stays for many; one that dies is replaced.

    *backend* is whose file that process may import, where nothing installed loads its modules; *limit* are the seconds
    that one artefact may take.
    """

    def __init__(self, backend: Backend | None = None, limit: float = LIMIT):
        self._vendor, self._limit = vendor_file(backend), limit
        self._folder = TemporaryDirectory(prefix="byoc_saved_")
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe: Connection | None = None
        self._count = 0
        self._is_ready = False
        self.imported = False  # whether the vendor's file was needed

    def run(self, library: Library, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[list[np.ndarray]]:
        """The outputs for each of *feeds*, by the saved *library*. Raises UserError with what went wrong."""
        self._count += 1
        path = library.save(Path(self._folder.name) / f"{self._count}.byoc")
        try:
            found = self._answer(Job(str(path), list(feeds), self._vendor, list(sys.path)))
        finally:
            path.unlink()
        if found.problem:
            raise UserError(found.problem)
        self.imported |= found.imported
        return [list(outputs) for outputs in found.outputs]

    def _answer(self, job: Job) -> Answer:
        if self._process is None or self._process.poll() is not None or self._count % ARTEFACTS == 0:
            self.start()
        assert self._pipe is not None and self._process is not None
        try:
            if not self._is_ready:
                if not self._pipe.poll(START_SECONDS):
                    self._stop()
                    return Answer((), f"the process that loads it did not start in {START_SECONDS:g} s")
                self._pipe.recv()
                self._is_ready = True
            self._pipe.send(job)
            if not self._pipe.poll(self._limit):
                self._stop()
                return Answer((), f"no result after {self._limit:g} s")
            found: Answer = self._pipe.recv()
            return found
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._process.wait(10)
            return Answer((), f"the process that loaded it ended with {self._process.returncode}")

    def start(self) -> None:
        """Start the process, where it will be needed soon; nothing waits until it is ready."""
        self._stop()
        self._is_ready = False
        self._pipe, other = multiprocessing.Pipe()
        number = other.fileno()
        code = f"from {Job.__module__} import Connection, serve; serve(Connection({number}))"
        command = [sys.executable, "-c", code]
        self._process = subprocess.Popen(command, pass_fds=[number], stdout=subprocess.DEVNULL)
        other.close()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None

    def close(self) -> None:
        """End the process and remove the artefacts."""
        self._stop()
        self._folder.cleanup()

    def __enter__(self) -> SavedRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
