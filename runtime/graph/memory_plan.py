"""One arena for the buffers of a run, by their lifetimes and sizes.

Ensures: two buffers that live at the same time never overlap, and every offset is a multiple of :data:`ALIGNMENT`.
Method: buffers in some order, each at the lowest place or in the smallest gap that is free during its life (greedy by
size and by breadth; Pisarchyk and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020). Several
orders are tried; where each needs more than what lives at once, places that do with that are searched step by step, and
in the end the buffer that reaches highest is placed earlier, again and again.

A device that gives memory only in pieces of a certain size has its arena in several: no buffer then lies in two.
"""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from byoc.runtime.core.ndarray import ALIGNMENT

IMPROVEMENTS = 100  # orders that are tried beyond the first ones
SEARCHED = 20  # places that a search may try for each buffer, on the mean


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


def plan_memory(buffers: Sequence[Lifetime], piece: int = 0) -> MemoryPlan:
    """Place *buffers* in one arena, or in one that is made of pieces of *piece* bytes, where that is not 0.

    Raises ValueError for a buffer that is larger than a piece, and for a piece that is no multiple of the alignment.
    """
    if piece and (piece % ALIGNMENT or any(aligned(b.size) > piece for b in buffers)):
        raise ValueError(f"expected buffers that fit into pieces of {piece} bytes, a multiple of {ALIGNMENT}")
    gaps = tuple(functools.partial(gap, piece=piece) for gap in (_lowest_gap, _smallest_gap))
    bound = largest_live_bytes(buffers)
    neighbours = _neighbours(buffers)
    best, best_order = MemoryPlan((), 0), list(range(len(buffers)))
    found = False
    for order in _orders(buffers):
        for gap in gaps:
            plan = _place(buffers, order, neighbours, gap)
            if not found or plan.total < best.total:
                best, best_order, found = plan, order, True
            if best.total == bound:
                return best
    searched = _searched(buffers, neighbours, bound) if not piece or bound <= piece else None
    return searched or _improved(buffers, best, best_order, (neighbours, gaps), bound)


def _orders(buffers: Sequence[Lifetime]) -> Iterator[list[int]]:
    """The orders in which to place: by size, by size times life, by length of life, by what lives beside."""
    alive = _live_bytes(buffers)
    keys: tuple[Callable[[Lifetime], tuple[int, ...]], ...] = (
        lambda b: (-b.size, b.first),
        lambda b: (-b.size * (b.last - b.first + 1), b.first),
        lambda b: (-max(alive[b.first : b.last + 1]), -b.size, b.first),
        lambda b: (b.first - b.last, -b.size, b.first),
        lambda b: (b.first, -b.size),
    )
    for key in keys:
        ranks = [(*key(buffer), i) for i, buffer in enumerate(buffers)]
        yield sorted(range(len(buffers)), key=ranks.__getitem__)


def _neighbours(buffers: Sequence[Lifetime]) -> list[list[int]]:
    """For each buffer those that live at one of its steps."""
    result: list[list[int]] = [[] for _ in buffers]
    alive: list[int] = []
    for i in sorted(range(len(buffers)), key=lambda i: buffers[i].first):
        alive = [k for k in alive if buffers[k].last >= buffers[i].first]
        for k in alive:
            result[i].append(k)
            result[k].append(i)
        alive.append(i)
    return result


Gap = Callable[[Sequence[tuple[int, int]], int], int]


def _place(
    buffers: Sequence[Lifetime], order: Sequence[int], neighbours: Sequence[Sequence[int]], gap: Gap
) -> MemoryPlan:
    offsets = [-1] * len(buffers)
    total = 0
    for index in order:
        size = aligned(buffers[index].size)
        busy = sorted((offsets[k], offsets[k] + aligned(buffers[k].size)) for k in neighbours[index] if offsets[k] >= 0)
        offsets[index] = gap(busy, size)
        total = max(total, offsets[index] + size)
    return MemoryPlan(tuple(offsets), total)


def _lowest_gap(busy: Sequence[tuple[int, int]], size: int, piece: int) -> int:
    """The lowest offset where *size* bytes are free."""
    offset = 0
    for start, end in busy:
        if offset + size <= start:
            break
        offset = max(offset, _in_one_piece(end, size, piece))
    return offset


def _smallest_gap(busy: Sequence[tuple[int, int]], size: int, piece: int) -> int:
    """The offset of the smallest gap that holds *size* bytes, else the end."""
    best: tuple[int, int] | None = None
    offset = 0
    for start, end in busy:
        room = start - offset
        if room >= size and (best is None or room < best[0]):
            best = (room, offset)
        offset = max(offset, _in_one_piece(end, size, piece))
    return offset if best is None else best[1]


def _in_one_piece(offset: int, size: int, piece: int) -> int:
    """*offset*, or the beginning of the next piece where *size* bytes from there would lie in two."""
    return -(-offset // piece) * piece if piece and size and offset // piece != (offset + size - 1) // piece else offset


def _searched(buffers: Sequence[Lifetime], neighbours: Sequence[Sequence[int]], total: int) -> MemoryPlan | None:
    """A plan of *total* bytes: buffers by their first step, each at an end of a gap, and back where none is left.

    None where there is no such plan, and where none is found in time.
    """
    order = sorted(range(len(buffers)), key=lambda k: (buffers[k].first, -buffers[k].size, k))
    sizes, offsets = [aligned(b.size) for b in buffers], [-1] * len(buffers)

    def places(index: int) -> Iterator[int]:
        busy = sorted((offsets[k], offsets[k] + sizes[k]) for k in neighbours[index] if offsets[k] >= 0)
        begin = 0
        for start, end in (*busy, (total, total)):
            if start - begin >= sizes[index]:
                yield from dict.fromkeys((begin, start - sizes[index]))
            begin = max(begin, end)

    tried = [places(order[0])] if order else []
    for _ in range(SEARCHED * len(order)):
        if not tried:
            return None
        index = order[len(tried) - 1]
        offsets[index] = -1
        offset = next(tried[-1], -1)
        if offset < 0:
            tried.pop()
            continue
        offsets[index] = offset
        if len(tried) == len(order):
            return MemoryPlan(tuple(offsets), total)
        tried.append(places(order[len(tried)]))
    return None


def _improved(
    buffers: Sequence[Lifetime],
    best: MemoryPlan,
    order: list[int],
    placing: tuple[Sequence[Sequence[int]], Sequence[Gap]],
    bound: int,
) -> MemoryPlan:
    """*best*, or a smaller plan that is found by placing the buffer that reaches highest earlier, again and again."""
    plan = best
    neighbours, gaps = placing
    seen = {tuple(order)}
    for _ in range(IMPROVEMENTS):
        if best.total == bound:
            break
        top = max(range(len(buffers)), key=lambda i: (plan.offsets[i] + aligned(buffers[i].size), -i))
        position = order.index(top)
        order = [top, *order[:position], *order[position + 1 :]]
        if tuple(order) in seen:
            break
        seen.add(tuple(order))
        plan = min((_place(buffers, order, neighbours, gap) for gap in gaps), key=_total)
        best = min(best, plan, key=_total)
    return best


def _total(plan: MemoryPlan) -> int:
    return plan.total


def _live_bytes(buffers: Sequence[Lifetime]) -> list[int]:
    """The sum of the sizes that live at each step."""
    steps = max((b.last for b in buffers), default=-1) + 1
    change = [0] * (steps + 1)
    for buffer in buffers:
        change[buffer.first] += aligned(buffer.size)
        change[buffer.last + 1] -= aligned(buffer.size)
    return list(itertools.accumulate(change))[:steps]


def largest_live_bytes(buffers: Sequence[Lifetime]) -> int:
    """The largest sum of sizes that live at one step: no plan needs less."""
    return max(_live_bytes(buffers), default=0)
