"""Pausing Python's cyclic garbage collector where many objects are made that form no cycles.

A pass over 100,000 calls makes a million small objects, none of which is garbage before the pass ends. The collector
walks over all of them again and again, which takes longer than the pass itself. Reference counting goes on as ever.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

MANY = 50_000  # objects that are worth a look at what somebody has frozen, which walks over all of that


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
            _grow_old()
            gc.enable()


class _Seen:
    """Whether objects of somebody else were frozen when that was looked at last."""

    frozen = False


def _grow_old() -> None:
    """Let what was made count as old: the collector does not walk over all of it when it is back.

    Freezing and thawing moves lists, not objects. What somebody else has frozen stays so: a server that freezes its
    objects before it forks, a test run what it has collected; then it is looked at again only where much was made.
    """
    made = gc.get_count()[0]
    if made <= gc.get_threshold()[0] or (_Seen.frozen and made < MANY):
        return
    _Seen.frozen = gc.get_freeze_count() > 0
    if not _Seen.frozen:
        gc.freeze()
        gc.unfreeze()
