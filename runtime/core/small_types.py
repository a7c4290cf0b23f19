"""The element types that numpy knows through ``ml_dtypes``: bfloat16, and those of 8, 4 and 2 bits.

In memory each element takes whole bytes, one for what has 8 bits or less; only files pack several into a byte. The
names are numpy's and TVM's. ONNX calls ``float8_e8m0fnu`` FLOAT8E8M0 and ``float4_e2m1fn`` FLOAT4E2M1. Source:
``ml_dtypes``, ``TensorProto.DataType`` of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.runtime.core.errors import UserError

# dtype -> the bits of an element
SMALL_FLOATS: Mapping[str, int] = {
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn": 4,
}
SMALL_INTEGERS: Mapping[str, int] = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}
SMALL: Mapping[str, int] = {**SMALL_FLOATS, **SMALL_INTEGERS}
BITS: Mapping[str, int] = {"bfloat16": 16, **SMALL}


def extension_dtype(name: str) -> np.dtype:
    """The numpy dtype *name*, one of ``BITS``. Raises UserError where ``ml_dtypes`` is missing, or too old for it."""
    try:
        import ml_dtypes
    except ImportError:
        raise UserError(f"{name} arrays need the package ml_dtypes: pip install ml_dtypes") from None
    if not hasattr(ml_dtypes, name):
        raise UserError(f"{name} arrays need a newer ml_dtypes than {ml_dtypes.__version__}: pip install -U ml_dtypes")
    found: np.dtype = np.dtype(getattr(ml_dtypes, name))
    return found


def integer_range(dtype: str) -> tuple[int, int]:
    """The least and the greatest number of an integer *dtype*, of any width. Raises ValueError for another."""
    bits = SMALL_INTEGERS.get(dtype)
    if bits is None:
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
