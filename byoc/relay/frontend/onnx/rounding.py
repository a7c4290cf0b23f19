"""What ONNX computes in floating point on other types: the type to compute in, and the way back.

Integers round to the nearest, ties to even, and stop at their limits, as ONNX's reference does (``saturate_cast``).
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.op.image.coordinates import IN_FLOAT32
from byoc.runtime.kernels.core.rounding import integer_limits


def working_dtype(dtype: str) -> str:
    """The type in which weighted sums of numbers of *dtype* are computed."""
    return "float32" if dtype in IN_FLOAT32 else "float64"


def rounded(value: RelayExpr, dtype: str) -> RelayExpr:
    """*value*, of ``working_dtype(dtype)``, as *dtype*: integers to the nearest (ties to even), within their limits."""
    work = working_dtype(dtype)
    if "int" in dtype:
        low, high = integer_limits(dtype, work)
        value = relay.minimum(relay.maximum(relay.round(value), constant(low, work)), constant(high, work))
    return value if dtype == work else relay.cast(value, dtype)
