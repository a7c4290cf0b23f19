"""Stores stay where they stand: which flag that takes, so that the threads of a team may store side by side.

GCC's predictive commoning drops a store that a later iteration repeats at the same place, as a row does where a block
of columns of the row before will be. What the last iterations would have stored it loads before the loop and stores
after it, also where the loop runs so rarely that these elements are another thread's: it gives them their old numbers
again (GCC 12.2 at ``-O2`` and ``-O3``: a product of f64[7, 7] and f64[7, 8] on two threads). C11 precludes assignments
to memory that the program would not modify (5.1.2.4, note 27).
"""

from __future__ import annotations

GCC_FLAGS = ("-fno-predictive-commoning",)


def shared_store_flags(is_gcc: bool) -> tuple[str, ...]:
    """The flags for code that the threads of a team run."""
    return GCC_FLAGS if is_gcc else ()
