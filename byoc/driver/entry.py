"""``byoc.compile``: a compiled model from the cache folder where it is there, else from the compiler.

This module loads no part of the compiler before it is needed, which is most of the time that a model takes which was
compiled before. What is kept, and when nothing is, says ``library_key.py``; below it, the compiler has a cache of its
own for the objects of groups, which serves every model (``codegen/c/toolchain/compiler.py``).
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.driver.library_cache import LibraryCache, own_libraries
from byoc.driver.library_key import (
    Circumstances,
    Request,
    circumstances,
    sources_digest,
    stands_alone,
    tuned_records,
)
from byoc.runtime.errors import OutOfMemoryError
from byoc.runtime.library import Library

if TYPE_CHECKING:
    from onnx import ModelProto

    from byoc.codegen.tune.tuner import Tuner
    from byoc.driver.pass_list import Pipeline
    from byoc.driver.quantization import Calibration
    from byoc.ir.module import IRModule
    from byoc.partition.plan.plan import Plan

FOUND = "taking the compiled model from the cache"


def compile(
    model: str | os.PathLike[str] | bytes | ModelProto | IRModule,
    targets: Sequence[str] | str = ("c",),
    *,
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    exclude: Sequence[str] | Mapping[str, Sequence[str]] = (),
    backend_options: Mapping[str, Mapping[str, object]] | None = None,
    precision: str = "f32",
    keep_f32: Sequence[str] = (),
    calibration: Calibration | Iterable[Mapping[str, object]] | None = None,
    tune: str | Tuner = "none",
    policy: str = "order",
    costs: object = "analytic",
    plan: Plan | str | os.PathLike[str] | None = None,
    replan: bool = False,
    fallback: bool = False,
    prefer: Mapping[str, Sequence[str]] | None = None,
    configuration: str | None = None,
    pipeline: Pipeline | None = None,
    progress: Callable[[str], None] | None = None,
) -> Library:
    """Compile a model for *targets*, in their order of preference; what none of them takes runs on the host.

    *model* is an ONNX file, its bytes, a ModelProto, or a module of the graph language. A trailing ``"c"`` (or
    ``"host"``) names the host itself, which is generated C whether named or not. With *precision* ``"bf16"`` the host's
    products compute on bfloat16 with sums in float32, where that pays and but for the operators and ONNX nodes that
    *keep_f32* names; with ``"int8"`` those that the model quantizes compute on integers, and where it quantizes none,
    those that ranges over *calibration* allow: samples of its inputs by name, or a ``byoc.Calibration``; without it
    dense products alone, by ranges found when the model runs. The report says which they are. *tune* says how much is
    tried for fast kernels: ``"none"``, ``"fast"``, ``"normal"`` or ``"heavy"``; what won is kept in the cache folder,
    and so is the library that a file or bytes give for the host alone: compiled again with nothing changed, in a
    process that has registered nothing, it is read from there. *policy*, *costs*, *prefer* and *configuration* say how
    the cut is chosen, as for :func:`byoc.plan`; or *plan* is the cut, a plan of this model or its JSON file, with the
    targets in it. With *replan* a target that fails when compiling, or is not on this machine, is planned without, down
    to the host alone, and the report says so. With *fallback* the library also has the host's version of each region,
    which runs where a backend fails to load, to initialise or to run; ``Library.fallbacks`` tells.
    *pipeline* is :func:`byoc.pipeline` as somebody edited it. Raises UserError (of its kind for reading, types,
    partitioning and compiling) with one sentence.
    """
    request = Request(
        targets,
        shapes,
        exclude,
        backend_options,
        precision,
        keep_f32,
        calibration,
        tune,
        policy,
        costs,
        plan,
        replan,
        fallback,
        prefer,
        configuration,
        pipeline,
    )

    def anew(progress: Callable[[str], None] | None) -> Library:
        compiler = importlib.import_module("byoc.driver.compile")
        made: Library = compiler.compile(model, **vars(request), progress=progress)
        return made

    try:
        return _compiled(os.fspath(model) if isinstance(model, os.PathLike) else model, request, anew, progress)
    except OutOfMemoryError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(
            f"this process has too little memory to compile the model ({str(error) or 'how much is not known'}): "
            "allow it more, or compile on a larger machine"
        ) from error


def _compiled(
    source: object,
    request: Request,
    anew: Callable[[Callable[[str], None] | None], Library],
    progress: Callable[[str], None] | None,
) -> Library:
    """The library of *request* from the cache where it may be there, else made *anew*."""
    libraries = own_libraries()
    known = circumstances(source, request) if libraries is not None else None
    if libraries is None or known is None:
        return anew(progress)
    tell = progress or _silent
    found = libraries.read(known.key(_records(request)))
    if found is not None:
        tell(FOUND)
        return found
    library = anew(progress)
    if stands_alone(source, known.model) and sources_digest() == known.sources:
        _keep(libraries, known, request, library, lambda: anew(None), tell)
    return library


def _records(request: Request) -> str:
    return tuned_records() if request.is_tuned else ""


def _keep(
    libraries: LibraryCache,
    known: Circumstances,
    request: Request,
    library: Library,
    anew: Callable[[], Library],
    tell: Callable[[str], None],
) -> None:
    """Keep what the next compilation would give: *library*, or one made *anew* where this one tuned something.

    Nothing is kept while others tune too.
    """
    records = _records(request)
    if request.is_tuned:
        library = anew()
        if library.report["tuning"]["tuned"] or _records(request) != records:  # type: ignore[index]
            return
    problem = libraries.write(known.key(records), library)
    if problem is not None:
        tell(f"the compiled model is not kept in the cache: {problem}")


def _silent(stage: str) -> None:
    """Progress that nobody watches."""
