"""The process that loads artefacts: it imports ``byoc.runtime`` and nothing of the compiler, and stays for many."""

from __future__ import annotations

import importlib
import multiprocessing
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np

from fuzz.case import Feeds
from fuzz.configurations import Configuration

LIMIT = 60.0  # seconds for one artefact
ARTEFACTS = 200  # that one process loads before a new one takes its place


class Failure(Exception):
    """An artefact that did not run: ``verdict`` is ``error``, ``crashed`` or ``hung``."""

    def __init__(self, verdict: str, text: str):
        super().__init__(text)
        self.verdict = verdict


class LoaderProcess:
    """A process that loads and runs artefacts one after the other; one that dies is replaced."""

    def __init__(self) -> None:
        self._process: multiprocessing.Process | None = None
        self._pipe: Connection | None = None
        self._loaded = 0

    def run(self, path: Path, feeds: Sequence[Feeds], configuration: Configuration) -> list[list[np.ndarray]]:
        """The outputs for each of *feeds*. Raises Failure."""
        if self._process is None or not self._process.is_alive() or self._loaded >= ARTEFACTS:
            self.close()
            self._start()
        assert self._pipe is not None and self._process is not None
        self._loaded += 1
        try:
            self._pipe.send((str(path), list(feeds), configuration))
            if not self._pipe.poll(LIMIT):
                self._process.kill()
                raise Failure("hung", f"no result after {LIMIT:g} s")
            kind, found = self._pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError) as error:
            self._process.join(10)
            raise Failure("crashed", f"the process ended with {self._process.exitcode}") from error
        if kind != "outputs":
            raise Failure("error", str(found))
        return found

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=serve, args=(other,), daemon=True)  # type: ignore[assignment]
        self._process.start()  # type: ignore[union-attr]
        other.close()
        self._loaded = 0

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
        if self._pipe is not None:
            self._pipe.close()
        self._process = self._pipe = None


def serve(pipe: Connection) -> None:
    """Load and run what the pipe names until it is closed."""
    from byoc.runtime.loading import load
    from fuzz.running import run_library

    with_packages = False  # a vendor's package may import the compiler; nothing of ours does
    while True:
        try:
            path, feeds, configuration = pipe.recv()
        except EOFError:
            return
        try:
            with_packages |= bool(configuration.kernel_packages)
            for module in configuration.kernel_packages:
                importlib.import_module(module)
            library = load(path, threads=configuration.threads)
            found = run_library(library, feeds, configuration.executor, configuration.threads)
            compiler = [m for m in sys.modules if m.startswith(("byoc.relay", "byoc.driver", "byoc.partition"))]
            message: tuple[str, object] = ("outputs", found)
            if compiler and not with_packages:
                message = ("error", f"loading imported the compiler: {compiler[0]}")
        except Exception as error:  # it is what the fuzzer looks for
            message = ("error", f"{type(error).__name__}: {str(error)[:300]}")
        pipe.send(message)
