"""What differs between the languages that are written: types, literals, functions, and the text of operators.

A Language is a table. An entry of ``functions`` is a format string over the texts of the arguments; ``support``
holds the definitions of helpers that some entries call, by the helper's name, each written once above its first user.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.ir.types import dtype_bytes

# operator -> (C text, precedence of the result); "div" and "mod" here are those of non-negative operands or floats
OPERATORS: dict[str, tuple[str, int]] = {
    "mul": ("*", 13),
    "div": ("/", 13),
    "mod": ("%", 13),
    "add": ("+", 12),
    "sub": ("-", 12),
    "lt": ("<", 10),
    "le": ("<=", 10),
    "gt": (">", 10),
    "ge": (">=", 10),
    "eq": ("==", 9),
    "ne": ("!=", 9),
    "bit_and": ("&", 8),
    "bit_xor": ("^", 7),
    "bit_or": ("|", 6),
    "and": ("&&", 5),
    "or": ("||", 4),
}
ATOM, UNARY, TERNARY = 15, 14, 3


@dataclass(frozen=True)
class Language:
    """The spellings of one output language.

    ``functions`` maps ``(function, kind of dtype)`` to a format string; kinds are ``f16 f32 f64 bf16 int uint bool``.
    ``{T}`` in an entry is the short name of the dtype (``i32``), by which helpers are called. ``wraps`` says whether
    signed integers may overflow as they do in numpy (C is compiled so); else values are computed in unsigned types.
    ``steps`` says that sums of products are written by the function ``step``, which adds a product in one rounding;
    ``contracts`` that the compiler contracts whatever product is added, unless it goes through the function
    ``rounded``.
    """

    types: Mapping[str, str]
    functions: Mapping[tuple[str, str], str]
    support: Mapping[str, Callable[[str], str]]
    literal: Callable[[float | int | bool, str], str]
    wraps: bool = True
    steps: bool = False
    contracts: bool = False


WIDE_UNSIGNED = ("uint32", "uint64")  # what C leaves undefined for a negative float, and no smaller type stands for


def float_to_unsigned(dtype: str, types: Mapping[str, str]) -> Callable[[str], str]:
    """Defines ``to_<dtype>_<T>``, the conversion from a float dtype, for every number and alike on all processors.

    What a signed integer of 64 bits holds wraps from there; what fits an unsigned one alone is itself; else the answer
    is that of numpy on x86: 0, but 2**63 as a uint64 of a NaN and of what is below all integers of 64 bits.
    """
    result, signed = types[dtype], types["int64"]

    def define(source: str) -> str:
        middle, end = (f"{2**n}.0{'f' if source == 'float32' else ''}" for n in (63, 64))
        above = f"x < {end} ? ({result})x : 0" if dtype == "uint64" else "0"
        below = f"({result})1 << 63" if dtype == "uint64" else "0"
        return "\n".join(
            [
                f"static inline {result} to_{dtype}_{short_name(source)}({types[source]} x) {{",
                f"  if (x >= {middle}) return {above};",
                f"  return x >= -{middle} ? ({result})({signed})x : {below};",
                "}",
            ]
        )

    return define


def kind_of(dtype: str) -> str:
    """``f16 f32 f64 bf16 int uint bool``: what a function's spelling depends on."""
    integer = "uint" if dtype[0] == "u" else "int"
    kinds = {"float16": "f16", "float32": "f32", "float64": "f64", "bfloat16": "bf16", "bool": "bool"}
    return kinds.get(dtype, integer)


def short_name(dtype: str) -> str:
    """``f32``, ``i64``, ``u8``, ``bool``: dtypes in our notation."""
    if dtype == "bool":
        return dtype
    bits = "".join(c for c in dtype if c.isdigit())
    return dtype[0] + bits


def wrapped(value: int, dtype: str) -> int:
    """*value* as an integer of *dtype* holds it: folding is exact, arithmetic at run time wraps.

    >>> wrapped(2**63, "int64")
    -9223372036854775808
    """
    bits = 8 * dtype_bytes(dtype)
    low: int = value % 2**bits
    return low if dtype.startswith("u") or low < 2 ** (bits - 1) else low - 2**bits


def float_text(value: float, dtype: str) -> str:
    """The shortest decimal text of a finite float of *dtype*, without a suffix."""
    text = repr(float(value)) if dtype == "float64" else str(np.float32(value))
    return text if any(c in text for c in ".en") else f"{text}.0"


def least(dtype: str) -> float | int:
    """The neutral value of a maximum."""
    if dtype.startswith("float"):
        return -math.inf
    return 0 if dtype == "bool" else int(np.iinfo(dtype).min)


def greatest(dtype: str) -> float | int:
    """The neutral value of a minimum."""
    if dtype.startswith("float"):
        return math.inf
    return 1 if dtype == "bool" else int(np.iinfo(dtype).max)
