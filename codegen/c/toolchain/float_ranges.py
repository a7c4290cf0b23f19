"""Ranges of floats: which flag keeps GCC from computing them without end.

GCC 13 propagates ranges of floats too, and its pass ``vrp`` goes round for ever in short unrolled chains of maxima that
ask for NaN and begin at a constant (GCC 13.3 at ``-O3``, for whatever processor: a softmax of three numbers, a max pool
of f64 with padding; not at ``-O2``, and not GCC 12.2). Later versions were not tried, and get the flag as well.
"""

from __future__ import annotations

from collections.abc import Mapping

FIRST_VERSION = 13
GCC_FLAGS = ("-fno-tree-vrp",)
REASON = "GCC 13 computes the ranges of some chains of maxima without end"


def float_range_flags(macros: Mapping[str, str]) -> tuple[str, ...]:
    """The flags for a compiler that predefines *macros*."""
    is_gcc = "__GNUC__" in macros and "__clang__" not in macros
    return GCC_FLAGS if is_gcc and int(macros["__GNUC__"]) >= FIRST_VERSION else ()
