"""Sanitizers in compiled code: what a process must have been started with before it may load a library that has them.

The address and the thread sanitizer replace ``malloc`` and watch memory from the start of a process, so their library
must be there before any other (``LD_PRELOAD``); a process that loads such code later is ended by it. The
undefined-behaviour sanitizer only adds checks, and needs nothing.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

SANITIZERS = ("address", "undefined", "thread")
# of those whose library comes first: the library, and a symbol that it has
PRELOADED = {"address": ("libasan.so", "__asan_init"), "thread": ("libtsan.so", "__tsan_init")}


def absent(sanitizers: Sequence[str]) -> list[str]:
    """Those of *sanitizers* whose library this process was not started with, where it had to be."""
    process = ctypes.CDLL(None)
    return [name for name in sanitizers if name in PRELOADED and not hasattr(process, PRELOADED[name][1])]


def sanitizer_refusal(sanitizers: Sequence[str]) -> str | None:
    """Why code with *sanitizers* cannot be loaded into this process: a sentence, or None when it can."""
    missing = absent(sanitizers)
    if not missing:
        return None
    library = PRELOADED[missing[0]][0]
    return (
        f"it was built with the {missing[0]} sanitizer, whose library this process was not started with: start it with "
        f"LD_PRELOAD=$(gcc -print-file-name={library}), or compile the model without BYOC_SANITIZE"
    )
