"""What is made once for each set of sizes and kept for the most recent: a device's buffers, a vendor's built model.

A backend that has to build anew when an input changes its shape keeps what it built in one of these, so that shapes A,
B and A again are two builds. Any number of threads may ask; each thing is made once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from byoc.runtime.core.fork import new_rlock

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")
KEPT = 4


class ShapeCache(Generic[Key, Made]):
    """What *make* gives for a key, of which the *kept* most recent are held; what raises is not kept."""

    def __init__(self, make: Callable[[Key], Made], kept: int = KEPT):
        self.builds = 0  # how often *make* gave something
        self._make, self._kept = make, kept
        self._made: OrderedDict[Key, Made] = OrderedDict()
        self._lock = new_rlock()

    def __getitem__(self, key: Key) -> Made:
        with self._lock:
            if key not in self._made:
                while len(self._made) >= self._kept:  # before, since two may be more than the device has room for
                    self._made.popitem(last=False)
                self._made[key] = self._make(key)
                self.builds += 1
            self._made.move_to_end(key)
            return self._made[key]

    def keep(self, count: int) -> None:
        """Hold at least *count* from now on."""
        with self._lock:
            self._kept = max(self._kept, count)

    def keys(self) -> list[Key]:
        """What is held now, the most recent last."""
        with self._lock:
            return list(self._made)

    def __len__(self) -> int:
        return len(self._made)
