"""Pausing Python's cyclic garbage collector where many objects are made that form no cycles.

A pass over 100,000 calls makes a million small objects, none of which is garbage before the pass ends. The collector
walks over all of them again and again, which takes longer than the pass itself. Reference counting goes on as ever.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused_collector() -> Iterator[None]:
    """Do not look for cycles inside; outside, the collector is on exactly if it was on before.

    Also a decorator. May be nested; the collector is one for all threads.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
