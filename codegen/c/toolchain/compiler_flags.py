"""Flags that a compiler needs for all generated code, and why; they are found without a look at any expression."""

from __future__ import annotations

import os
from collections.abc import Mapping

from byoc.errors import UserError

# GCC 13's pass ``vrp`` does not terminate on short unrolled chains of maxima that check for NaN and begin at a constant
# (13.3 at ``-O3``, any processor: a softmax of three numbers, a max pool of f64 with padding; not at ``-O2``, not GCC
# 12.2). Later versions were not tried, and get the flag too.
FLOAT_RANGES_SINCE = 13
NO_FLOAT_RANGES = ("-fno-tree-vrp",)
WHY_NO_FLOAT_RANGES = "GCC 13 computes the ranges of some chains of maxima without end"


def float_range_flags(macros: Mapping[str, str]) -> tuple[str, ...]:
    """The flags for a compiler that predefines *macros*."""
    is_gcc = "__GNUC__" in macros and "__clang__" not in macros
    return NO_FLOAT_RANGES if is_gcc and int(macros["__GNUC__"]) >= FLOAT_RANGES_SINCE else ()


# GCC's predictive commoning drops a store that a later iteration repeats at the same place, loads before the loop what
# the last iterations would have stored, and stores it after the loop, even where the loop is so short that these
# elements are another thread's: they get their old numbers back (GCC 12.2 at ``-O2`` and ``-O3``: a product of f64[7,
# 7] and f64[7, 8] on two threads). C11 precludes assignments to memory that the program would not modify (5.1.2.4, note
# 27).
NO_COMMONING = ("-fno-predictive-commoning",)


def shared_store_flags(is_gcc: bool) -> tuple[str, ...]:
    """The flags for code that the threads of a team run."""
    return NO_COMMONING if is_gcc else ()


# Lower levels than 3 compile in about half the time into code that runs slower: for tests of what generated code
# computes, where the compiler takes longer than the code. As any flag, the level keeps cached code apart.
VARIABLE = "BYOC_OPTIMIZATION"
LEVELS = ("0", "1", "2", "3")
HIGHEST = LEVELS[-1]


def optimization_level() -> str:
    """The level that the variable names. Raises UserError for what is none."""
    level = os.environ.get(VARIABLE, "").strip() or HIGHEST
    if level not in LEVELS:
        raise UserError(f"{VARIABLE}: there is no level {level!r}; name one of {', '.join(LEVELS)}, or unset it")
    return level
