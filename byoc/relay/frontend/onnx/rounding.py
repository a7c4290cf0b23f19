"""What ONNX computes in floating point on other types: the type to compute in, and the way back.

Integers round to the nearest, ties to even, and stop at their limits, as ONNX's reference does (``saturate_cast``).
"""

from __future__ import annotations

import numpy as np

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import const

# short floats and bytes: in float32 what lies near a tie of longer integers would be rounded the wrong way
_IN_FLOAT32 = frozenset(["float32", "float16", "bfloat16", "int8", "uint8", "bool"])


def working_dtype(dtype: str) -> str:
    """The type in which weighted sums of numbers of *dtype* are computed."""
    return "float32" if dtype in _IN_FLOAT32 else "float64"


def rounded(value: RelayExpr, dtype: str) -> RelayExpr:
    """*value*, of ``working_dtype(dtype)``, as *dtype*: integers to the nearest (ties to even), within their limits."""
    work = working_dtype(dtype)
    if "int" in dtype:
        limits, kind = np.iinfo(dtype), np.dtype(work).type
        low, high = kind(limits.min), kind(limits.max)
        if int(high) > limits.max:  # the greatest float below the limit
            high = np.nextafter(high, kind(0))
        value = relay.minimum(relay.maximum(relay.round(value), const(low, work)), const(high, work))
    return value if dtype == work else relay.cast(value, dtype)
