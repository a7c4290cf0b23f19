"""The scalar types of TVM's script: ``T.int32(3)``. The rest of it is below the graph. Source: ``tvm.script.tir``."""

from __future__ import annotations

from byoc.compat.tvm.below import Missing
from byoc.compat.tvm_modules.tir import FloatImm, IntImm


def int8(value: int) -> IntImm:
    """A number of dtype int8."""
    return IntImm("int8", value)


def int32(value: int) -> IntImm:
    """A number of dtype int32."""
    return IntImm("int32", value)


def int64(value: int) -> IntImm:
    """A number of dtype int64."""
    return IntImm("int64", value)


def uint8(value: int) -> IntImm:
    """A number of dtype uint8."""
    return IntImm("uint8", value)


def float32(value: float) -> FloatImm:
    """A number of dtype float32."""
    return FloatImm("float32", value)


def __getattr__(name: str) -> Missing:
    if name.startswith("__") or name == "ir":  # tvm.script.ir_builder.tir.ir is this module too
        raise AttributeError(name)
    return Missing(f"tvm.script.tir.{name}")
