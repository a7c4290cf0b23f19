"""Passes that TVM's Python reaches in C++ as ``relay.transform._ffi_api``: those of ``relay.transform``, by name."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay import transform


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    known = getattr(transform, name, None) or GLOBAL_FUNCTIONS.get(f"relay._transform.{name}")
    return known or Missing(f"tvm.relay.transform._ffi_api.{name}")
