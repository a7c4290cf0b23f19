"""Units in runs: whatever is ready of one site runs, then what is ready of another, until all have run.

The connected parts of a run can each be one, all at once: runs follow each other, so that none waits for another in a
cycle. Linear, which is what joining pair by pair (``merge_units.py``) is not where many paths lead past each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.partition.problem import HOME


def parts_of_runs(
    site: Sequence[int], parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """For each unit the number of the unit that stands for its part, and the units that stand, parents first.

    Units at home have parts like others, which leaves little to look at. No units may wait for one another in a cycle.
    """
    order, run = _in_runs(site, parents, children)
    stands_for = list(range(len(site)))

    def find(unit: int) -> int:
        while stands_for[unit] != unit:
            stands_for[unit] = stands_for[stands_for[unit]]
            unit = stands_for[unit]
        return unit

    for unit in order:
        for parent in parents[unit]:
            if run[parent] == run[unit]:
                stands_for[find(unit)] = find(parent)
    found = [find(unit) for unit in range(len(site))]
    return found, list(dict.fromkeys(found[unit] for unit in order))


def _in_runs(
    site: Sequence[int], parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]
) -> tuple[list[int], list[int]]:
    """The units in the order in which they run, and the number of the run of each; the longest queue is next."""
    waiting = [len(p) for p in parents]
    ready: dict[int, list[int]] = {place: [] for place in sorted({HOME, *site})}
    for unit in range(len(site) - 1, -1, -1):
        if not waiting[unit]:
            ready[site[unit]].append(unit)
    order: list[int] = []
    run, number, here = [-1] * len(site), 0, HOME
    while any(ready.values()):
        queue = ready[here]
        while queue:
            unit = queue.pop()
            run[unit] = number
            order.append(unit)
            for child in reversed(children[unit]):
                waiting[child] -= 1
                if not waiting[child]:
                    ready[site[child]].append(child)
        number += 1
        here = max(ready, key=lambda place: len(ready[place]))
    return order, run
