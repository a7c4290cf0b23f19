"""What may be at work at the same time: which started steps a step has to wait for, by what it reads alone.

Steps are in an order in which each comes after those whose values it reads. A step that can be *started* lets those
behind it go on; it is waited for before the first step of the host that reads what it makes, and before that whatever
it waits for itself. A step that is started after others have been, whose values it reads, is not held up: it is made to
begin after them. What needs no company is called at once: where nothing stands between start and wait.

Ensures: from a step's start until it is waited for, no other step begins that writes to its inputs or touches its
outputs, if the memory of both is kept until :attr:`Overlap.end`. Used by the graph executor when it is made, and by the
C generator for a program that is one function.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Value = TypeVar("Value", bound=Hashable)
Item = TypeVar("Item", bound=Hashable)


@dataclass(frozen=True)
class OverlapStep(Generic[Value]):
    """The values that a step reads and makes, and whether it can be started."""

    reads: tuple[Value, ...]
    writes: tuple[Value, ...]
    can_start: bool


@dataclass(frozen=True)
class Overlap:
    """For each step: the started steps that are waited for before it, in this order (behind the last step: what is
    left), those whose values it reads while they may be at work, and the step before which it is done.

    A step that is not started is done before the next.
    """

    waits: tuple[tuple[int, ...], ...]
    after: tuple[tuple[int, ...], ...]
    end: tuple[int, ...]

    def is_started(self, step: int) -> bool:
        """Whether *step* is started and waited for, not called at once."""
        return self.end[step] > step + 1 or bool(self.after[step])


def overlap(steps: Sequence[OverlapStep[Value]]) -> Overlap:
    """Where to wait, for *steps* in their order."""
    found = _walk(steps, [step.can_start for step in steps])
    while True:  # what is called at once waits as the host does, which may leave others nothing to overlap with
        started = [step.can_start and found.is_started(k) for k, step in enumerate(steps)]
        again = _walk(steps, started)
        if again == found:
            return found
        found = again


def _walk(steps: Sequence[OverlapStep[Value]], starts: Sequence[bool]) -> Overlap:
    maker: dict[Value, int] = {}
    busy: dict[int, tuple[int, ...]] = {}  # what is at work, with what it waits for itself
    waits: list[tuple[int, ...]] = []
    after: list[tuple[int, ...]] = []
    end = list(range(1, len(steps) + 1))

    def done(wanted: Iterable[int], before: int) -> list[int]:
        """*wanted* and what it waits for, so far as it is at work: no longer, in the order of their steps."""
        found: set[int] = set()
        pending = list(wanted)
        while pending:
            step = pending.pop()
            if step in busy:
                pending.extend(busy.pop(step))
                found.add(step)
                end[step] = before
        return sorted(found)  # what is read stands before what reads it

    for k, step in enumerate(steps):
        read = tuple(sorted({maker[v] for v in step.reads if v in maker and maker[v] in busy}))
        waits.append(() if starts[k] else tuple(done(read, k)))
        after.append(read if starts[k] else ())
        if starts[k]:
            busy[k] = read
        maker.update((value, k) for value in step.writes)
    waits.append(tuple(done(list(busy), len(steps))))
    return Overlap(tuple(waits), tuple(after), tuple(end))


def start_early(
    items: Sequence[Item], needs: Callable[[Item], Iterable[Item]], can_start: Callable[[Item], bool]
) -> list[Item]:
    """*items*, each behind what it needs, in the order in which they overlap most.

    What can be started comes as soon as all that it needs is on its way; then what needs nothing that is at work, in
    the given order; else the first of the others, before which work is waited for. *items* stand behind what they need;
    what is none of them is there from the beginning.
    """
    return _Early(items, needs, can_start).run()


class _Early(Generic[Item]):
    def __init__(
        self, items: Sequence[Item], needs: Callable[[Item], Iterable[Item]], can_start: Callable[[Item], bool]
    ):
        self.items = items
        places = {item: k for k, item in enumerate(items)}
        self.needs = [tuple(dict.fromkeys(places[n] for n in needs(item) if n in places)) for item in items]
        self.starts = [can_start(item) for item in items]
        self.users: list[list[int]] = [[] for _ in items]
        for place, needed in enumerate(self.needs):
            for need in needed:
                self.users[need].append(place)
        self.missing = [len(needed) for needed in self.needs]  # of what each needs: not yet in the order
        self.waiting = [0] * len(items)  # of what each needs: at work
        self.at_work: set[int] = set()
        self.ready: tuple[list[int], ...] = ([], [], [])  # heaps: can start, need not wait, have to wait

    def run(self) -> list[Item]:
        for place, count in enumerate(self.missing):
            if not count:
                self._offer(place)
        order: list[int] = []
        issued = [False] * len(self.items)
        while len(order) < len(self.items):
            place = heapq.heappop(next(heap for heap in self.ready if heap))
            if issued[place]:  # it had to wait first, and then no more
                continue
            issued[place] = True
            order.append(place)
            if self.starts[place]:
                self.at_work.add(place)
                for user in self.users[place]:
                    self.waiting[user] += 1
            else:
                self._wait_for(self.needs[place])
            for user in self.users[place]:
                self.missing[user] -= 1
                if not self.missing[user]:
                    self._offer(user)
        return [self.items[place] for place in order]

    def _offer(self, place: int) -> None:
        rank = 0 if self.starts[place] else 2 if self.waiting[place] else 1
        heapq.heappush(self.ready[rank], place)

    def _wait_for(self, needed: Iterable[int]) -> None:
        """What is *needed* is done, and with it what that waited for."""
        pending = list(needed)
        while pending:
            place = pending.pop()
            if place not in self.at_work:
                continue
            self.at_work.discard(place)
            pending.extend(self.needs[place])
            for user in self.users[place]:
                self.waiting[user] -= 1
                if not self.waiting[user] and not self.missing[user] and not self.starts[user]:
                    heapq.heappush(self.ready[1], user)
