"""The kernel of ``debug``: a value is handed on, after a function of this process has seen it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.core.ndarray import NDArray, array
from byoc.runtime.kernels.core.registry import kernel

DebugFunction = Callable[[NDArray], object]
DEBUG_FUNCTIONS: dict[str, DebugFunction] = {"ignore": lambda value: None}


@kernel("debug")
def debug(program: np.ndarray, *, debug_func: str = "") -> np.ndarray:
    """The value itself, after *debug_func* was called with it; without one a debugger stops here.

    Raises KernelError for a function that another process registered.
    """
    if not debug_func:
        breakpoint()
    elif debug_func in DEBUG_FUNCTIONS:
        DEBUG_FUNCTIONS[debug_func](array(program))
    else:
        raise KernelError(f"debug: there is no function {debug_func!r} in this process")
    return program
