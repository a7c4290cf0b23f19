"""The process in which saved artefacts are loaded and run: it imports the runtime, and a vendor's file where it must.

``saved.py`` starts it; jobs and answers go through a connection.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

from byoc.runtime.core.errors import ArtifactError, ByocError
from byoc.runtime.library import Library
from byoc.runtime.loading import load


@dataclass(frozen=True)
class Job:
    """An artefact to run on each of *feeds*; *vendor* is a module's name and file, to import where loading fails.

    *imports* are the files and modules that were named for the command (``--import``), which brought it then.
    """

    path: str
    feeds: Sequence[Mapping[str, np.ndarray]]
    vendor: tuple[str, str] | None
    search: Sequence[str]
    imports: Sequence[str] = ()


@dataclass(frozen=True)
class Answer:
    """The outputs for each of the feeds, or a sentence why not; *imported* where the vendor's file was needed."""

    outputs: Sequence[Sequence[np.ndarray]] = ()
    problem: str = ""
    imported: bool = False


def raised_text(error: Exception) -> str:
    """What was raised, in a line, and the file and line that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{where.filename.rsplit('/', 1)[-1]}:{where.lineno}"
    return f"{type(error).__name__}: {' '.join(str(error).split())} ({place})"


def answer(job: Job) -> Answer:
    """What becomes of *job*."""
    try:
        library, imported = _loaded(job)
        return Answer([library.run(feed) for feed in job.feeds], "", imported)
    except Exception as error:  # whatever a vendor's code raises
        return Answer((), raised_text(error))


def _loaded(job: Job) -> tuple[Library, bool]:
    sys.path[:] = list(dict.fromkeys([*sys.path, *job.search]))
    try:
        return load(job.path), False
    except ByocError:  # its loader, or its table of kernels, is not known yet
        if job.vendor is None or job.vendor[0] in sys.modules:
            raise
    name, file = job.vendor
    if job.imports:
        from byoc.contract.importing import import_backend  # which registers what a file has not registered itself

        for named in job.imports:
            import_backend(named)
    if name in sys.modules:
        return load(job.path), True
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ArtifactError(f"the vendor's file {file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return load(job.path), True


def serve(pipe: Connection) -> None:
    """Say that this process is ready, and answer jobs until the pipe is closed."""
    pipe.send(Answer())
    while True:
        try:
            job = pipe.recv()
            pipe.send(answer(job))
        except (EOFError, OSError):  # nobody is at the other end
            return
