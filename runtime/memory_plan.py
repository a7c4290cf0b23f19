"""One arena for the buffers of a run, by their lifetimes and sizes.

Ensures: two buffers that live at the same time never overlap, and every offset is a multiple of :data:`ALIGNMENT`.
Method: buffers in order of falling size, each at the lowest offset that is free during its life (greedy by size;
Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020).
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 64


@dataclass(frozen=True)
class Lifetime:
    """A buffer: its bytes, and the first and last step (inclusive) that need it."""

    size: int
    first: int
    last: int


@dataclass(frozen=True)
class MemoryPlan:
    """An offset in bytes for each buffer, and the bytes of the whole arena."""

    offsets: tuple[int, ...]
    total: int


def aligned(size: int) -> int:
    """*size* rounded up to the alignment.

    >>> aligned(65)
    128
    """
    return -(-size // ALIGNMENT) * ALIGNMENT


def physical_memory() -> int:
    """The bytes of memory that this machine has: more than that no tensor can take."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def plan_memory(buffers: Sequence[Lifetime]) -> MemoryPlan:
    """Place *buffers* in one arena."""
    offsets = [0] * len(buffers)
    placed: list[tuple[int, int, Lifetime]] = []  # (offset, end, buffer), by offset
    total = 0
    for index in sorted(range(len(buffers)), key=lambda i: (-buffers[i].size, buffers[i].first, i)):
        buffer = buffers[index]
        size = aligned(buffer.size)
        offset = _first_gap(placed, buffer, size)
        offsets[index] = offset
        bisect.insort(placed, (offset, offset + size, buffer), key=lambda p: p[:2])
        total = max(total, offset + size)
    return MemoryPlan(tuple(offsets), total)


def _first_gap(placed: Sequence[tuple[int, int, Lifetime]], buffer: Lifetime, size: int) -> int:
    """The lowest offset where *size* bytes are free while *buffer* lives."""
    offset = 0
    for start, end, other in placed:
        if other.last < buffer.first or buffer.last < other.first:
            continue
        if offset + size <= start:
            break
        offset = max(offset, end)
    return offset


def largest_live_bytes(buffers: Sequence[Lifetime]) -> int:
    """The largest sum of sizes that live at one step: no plan needs less."""
    steps = max((b.last for b in buffers), default=-1) + 1
    change = [0] * (steps + 1)
    for buffer in buffers:
        change[buffer.first] += aligned(buffer.size)
        change[buffer.last + 1] -= aligned(buffer.size)
    live = largest = 0
    for delta in change:
        live += delta
        largest = max(largest, live)
    return largest
