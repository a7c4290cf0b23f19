"""The functions that TVM's Python reaches in C++ to make calls of operators. Source: ``relay.op._make``."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing
from byoc.relay import op


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    return getattr(op, name, Missing(f"tvm.relay.op._make.{name}"))
