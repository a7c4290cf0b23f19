"""Running artefacts in a process that has not compiled them: what a user's machine does."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

import numpy as np

from byoc.contract.backend import Backend
from byoc.contract.importing import imported_backends
from byoc.errors import UserError
from byoc.runtime.library import Library
from byoc.testing.core.child_process import ChildProcess
from byoc.testing.core.load_worker import Answer, Job, serve
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
        self._process: ChildProcess | None = None
        self._count = 0
        self._is_ready = False
        self.imported = False  # whether the vendor's file was needed

    def run(self, library: Library, feeds: Sequence[Mapping[str, np.ndarray]]) -> list[list[np.ndarray]]:
        """The outputs for each of *feeds*, by the saved *library*. Raises UserError with what went wrong."""
        self._count += 1
        path = library.save(Path(self._folder.name) / f"{self._count}.byoc")
        try:
            found = self._answer(Job(str(path), list(feeds), self._vendor, list(sys.path), imported_backends()))
        finally:
            path.unlink()
        if found.problem:
            raise UserError(found.problem)
        self.imported |= found.imported
        return [list(outputs) for outputs in found.outputs]

    def _answer(self, job: Job) -> Answer:
        if self._process is None or self._count % ARTEFACTS == 0:
            self.start()
        process = self._process
        assert process is not None
        try:
            if not self._is_ready:
                if not process.answers_within(START_SECONDS):
                    self._stop()
                    return Answer((), f"the process that loads it did not start in {START_SECONDS:g} s")
                process.pipe.recv()
                self._is_ready = True
            process.pipe.send(job)
            if not process.answers_within(self._limit):
                place = process.place()
                self._stop()
                return Answer((), f"no result after {self._limit:g} s{f' ({place})' if place else ''}")
            found: Answer = process.pipe.recv()
            return found
        except (EOFError, BrokenPipeError, ConnectionResetError):
            how, place = process.wait(), process.place()
            self._stop()
            return Answer((), f"loaded in another process, {how}{f' ({place})' if place else ''}")

    def start(self) -> None:
        """Start the process, where it will be needed soon; nothing waits until it is ready."""
        self._stop()
        self._is_ready = False
        self._process = ChildProcess()
        self._process.pipe.send(serve)

    def _stop(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process = None

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
