"""Functions that TVM's Python reaches in C++ as ``relay.analysis._ffi_api``; here they are found by name when used."""

from __future__ import annotations

from collections.abc import Callable

from byoc.annex.analysis import solver_functions  # noqa: F401 - registers them
from byoc.compat.tvm.below import Missing
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay import analysis


def __getattr__(name: str) -> Callable[..., object] | Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    registered = GLOBAL_FUNCTIONS.get(f"relay.analysis.{name}")
    return registered or getattr(analysis, name, None) or Missing(f"tvm.relay.analysis._ffi_api.{name}")
