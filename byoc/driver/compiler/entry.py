"""``byoc.compile``: a compiled model from the cache folder where it is there, else from the compiler.

This module loads no part of the compiler before it is needed, which is most of the time that a model takes which was
compiled before. What is kept, and when nothing is, says ``library_key.py``; below it, the compiler has a cache of its
own for the objects of groups, which serves every model (``codegen/c/toolchain/compiler.py``).
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections.abc import Callable

from byoc.base.progress import Progress, silent
from byoc.driver.library_cache import LibraryCache, own_libraries
from byoc.driver.library_key import (
    Circumstances,
    circumstances,
    is_tuned,
    sources_digest,
    stands_alone,
    tuned_records,
)
from byoc.driver.options import CompileRequest
from byoc.options.entry import takes
from byoc.runtime.core.errors import OutOfMemoryError
from byoc.runtime.core.strict_json import mapping_of
from byoc.runtime.library import Library

FOUND = "taking the compiled model from the cache"


@takes(CompileRequest, "byoc.compile")
def compile(asked: CompileRequest) -> Library:
    """Compile a model for *targets*; what none of them takes runs on the host, as generated C.

    The options *policy*, *costs*, *prefer* and *configuration* say how the cut is chosen, as for :func:`byoc.plan`, or
    *plan* is the cut. A library that a file or bytes give for the host alone is kept in the cache folder: compiled
    again with nothing changed, in a process that has registered nothing, it is read from there. The report of the
    library says what was done, and why not what was asked.

    Returns:
        The library, which runs here, and is saved as one file.

    Raises:
        UserError: of its kind for reading, types, partitioning and compiling, with one sentence.
    """

    def anew(progress: Progress | None) -> Library:
        compiler = importlib.import_module("byoc.driver.compiler.compile")
        made: Library = compiler.compile_model(dataclasses.replace(asked, progress=progress))
        return made

    source = os.fspath(asked.model) if isinstance(asked.model, os.PathLike) else asked.model
    try:
        return _compiled(source, asked, anew)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(
            f"this process has too little memory to compile the model ({str(error) or 'how much is not known'}): "
            "allow it more, or compile on a larger machine"
        ) from error


def _compiled(
    source: object,
    request: CompileRequest,
    anew: Callable[[Progress | None], Library],
) -> Library:
    """The library of *request* from the cache where it may be there, else made *anew*."""
    libraries = own_libraries()
    known = circumstances(source, request) if libraries is not None else None
    if libraries is None or known is None:
        return anew(request.progress)
    progress = request.progress or silent
    found = libraries.read(known.key(_records(request)))
    if found is not None:
        progress(FOUND)
        return found
    library = anew(request.progress)
    if stands_alone(source, known.model) and sources_digest() == known.sources:
        _keep(libraries, known, request, library, lambda: anew(None), progress)
    return library


def _records(request: CompileRequest) -> str:
    return tuned_records() if is_tuned(request) else ""


def _keep(
    libraries: LibraryCache,
    known: Circumstances,
    request: CompileRequest,
    library: Library,
    anew: Callable[[], Library],
    progress: Progress,
) -> None:
    """Keep what the next compilation would give: *library*, or one made *anew* where this one tuned something.

    Nothing is kept while others tune too.
    """
    records = _records(request)
    if is_tuned(request):
        library = anew()
        if mapping_of(library.report["tuning"], "tuning")["tuned"] or _records(request) != records:
            return
    problem = libraries.write(known.key(records), library)
    if problem is not None:
        progress(f"the compiled model is not kept in the cache: {problem}")
