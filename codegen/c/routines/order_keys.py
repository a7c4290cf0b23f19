"""Elements as unsigned numbers of 64 bits in the order of numpy: a NaN behind all others, the two zeros the same.

Whatever sorts or ranks compares these alone, of every dtype, and the other way round by their complement.
"""

from __future__ import annotations

import numpy as np

from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import WrittenFunction
from byoc.ir.types import STORED, dtype_bytes
from byoc.runtime.core.ndarray import numpy_dtype

_INFINITIES = {"float32": 0x7F800000, "float64": 0x7FF << 52, "float16": 0x7C00, "bfloat16": 0x7F80}


def order_key(dtype: str) -> WrittenFunction:
    """``uint64_t order_key_<dtype>(T x)``."""
    name = f"order_key_{dtype}"
    lines = _lines(dtype)

    def write(exprs: ExprWriter) -> str:
        head = f"static inline uint64_t {name}({exprs.language.types[dtype]} x) {{"
        return "\n".join([head, *(f"  {line}" for line in lines), "}"])

    return WrittenFunction(name, write)


def _lines(dtype: str) -> list[str]:
    if dtype in _INFINITIES:
        return _float_lines(dtype)
    if dtype in STORED:
        return _table_lines(dtype)
    if dtype.startswith("int"):
        return ["return (uint64_t)(int64_t)x ^ UINT64_C(1) << 63;"]
    return ["return (uint64_t)x;"]


def _float_lines(dtype: str) -> list[str]:
    """By the bits, which are a sign and a size."""
    bits = 8 * dtype_bytes(dtype)
    read = ["uint64_t bits = x;"] if dtype in STORED else [f"uint{bits}_t bits;", "memcpy(&bits, &x, sizeof bits);"]
    middle = f"UINT64_C({1 << (bits - 1):#x})"
    return [
        *read,
        f"const uint64_t size = bits & UINT64_C({(1 << (bits - 1)) - 1:#x});",
        f"if (size > UINT64_C({_INFINITIES[dtype]:#x})) return UINT64_MAX;",
        f"return bits & {middle} ? {middle} - size : {middle} + size;",
    ]


def _table_lines(dtype: str) -> list[str]:
    """By a table of the few that there are."""
    codes = np.arange(256, dtype="uint8").view(numpy_dtype(dtype)).astype("float32")
    ranks = np.unique(codes, return_inverse=True)[1].reshape(-1)
    rows = [", ".join(map(str, ranks[k : k + 16])) for k in range(0, 256, 16)]
    table = ",\n    ".join(rows)
    return [f"static const uint8_t ranks[256] = {{\n    {table}}};", "return ranks[x];"]
