"""How long a backend takes, beside the host alone: medians of several runs, measured one beside the other."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from byoc.driver.compiler.entry import compile as compile_model
from byoc.ir.module import IRModule
from byoc.runtime.library import Library
from byoc.testing.certificate import SpeedRow
from byoc.testing.checks import Examiner
from byoc.testing.core.case import Case

RUNS = 15


def measured(examiner: Examiner, case: Case) -> SpeedRow | None:
    """The times of *case*; None where one of both does not compile or run it, which is judged elsewhere."""
    try:
        backend = examiner.compiled(case)
        host = compile_model(IRModule.from_expr(case.function), ["c"])
        return compared(case.name, (backend, host), case.inputs())
    except Exception:  # whatever a vendor's code raises
        return None


def compared(name: str, libraries: tuple[Library, Library], inputs: Mapping[str, np.ndarray]) -> SpeedRow:
    """The median times of two libraries, the backend's and the host's, on the same *inputs*, run in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    for library in libraries:
        library.run(inputs)
    for _ in range(RUNS):
        for library, found in zip(libraries, times, strict=True):
            found.append(_seconds(partial(library.run, inputs)))
    backend, host = (statistics.median(found) * 1e3 for found in times)
    return SpeedRow(name, backend, host)


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
