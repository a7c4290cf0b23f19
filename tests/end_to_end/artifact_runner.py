"""A process of its own that loads artefacts and runs them: one that crashes is reported with its signal, and with who
asked.

It imports ``byoc.runtime`` alone and serves one call after another, so that a call costs no new process. Constants are
mapped read-only there: a store to one is a segmentation fault.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

Feeds = Mapping[str, np.ndarray]
SERVER = """
import os, pickle, sys
results = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)  # what is printed must not stand between the results
import byoc.runtime
while True:
    try:
        path, feeds, threads = pickle.load(sys.stdin.buffer)
    except EOFError:
        break
    try:
        library = byoc.runtime.load(path)
        library.threads = threads
        before = [{name: value.copy() for name, value in each.items()} for each in feeds]
        found = [library.run(each) for each in feeds]
        kept = all((a[n] == b[n]).all() or (a[n] != a[n]).any() for a, b in zip(feeds, before) for n in a)
        answer = found if kept else AssertionError("an input was written to")
    except Exception as error:
        answer = error
    pickle.dump(answer, results)
    results.flush()
"""


END_SECONDS = 30.0


class ArtifactRunner:
    """Runs artefacts in another process, which is started when it is needed and again after it has died."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, path: pathlib.Path, feeds: Sequence[Feeds], threads: int | None = None) -> list[list[np.ndarray]]:
        """The outputs for each of *feeds*. Raises what the process raised; fails where it died, naming the signal."""
        process = self._process or self._started()
        assert process.stdin is not None and process.stdout is not None
        try:
            pickle.dump((str(path), [dict(f) for f in feeds], threads), process.stdin)
            process.stdin.flush()
            answer = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self._process = None
            code = process.wait()
            died = signal.Signals(-code).name if code < 0 else f"exit status {code}"
            pytest.fail(f"the process that ran the artefact {path.name} ended: {died}")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """End the process."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
                pytest.fail("the process that runs artefacts does not end: who else holds its input?")
            finally:
                self._process = None

    def _started(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)
        )
        return self._process


@pytest.fixture(scope="session")
def artifact_runner() -> Iterator[ArtifactRunner]:
    """A runner for the whole session."""
    runner = ArtifactRunner()
    yield runner
    runner.end()
