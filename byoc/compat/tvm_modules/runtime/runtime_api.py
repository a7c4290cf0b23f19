"""Functions that TVM's Python reaches in C++ as ``runtime._ffi_api``; here they are found by name when used."""

from __future__ import annotations

from collections.abc import Callable

from byoc.compat.tvm.below import Missing
from byoc.ir.registry import GLOBAL_FUNCTIONS


def __getattr__(name: str) -> Callable[..., object] | Missing:
    if name.startswith("__"):
        raise AttributeError(name)
    return GLOBAL_FUNCTIONS.get(f"runtime.{name}") or Missing(f"tvm.runtime._ffi_api.{name}")
