"""Cuts for regions beyond the limits of their place (``cuts.py``)."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from byoc.partition.problem import Problem
from byoc.partition.solve.evaluate import beyond
from byoc.partition.solve.program import PlacementProgram, Row, summed

Neighbours = Mapping[int, Sequence[int]]


def limit_cuts(
    program: PlacementProgram, chosen: Sequence[int], members: Sequence[int], site: int, neighbours: Neighbours
) -> list[Row]:
    """Rows that forbid the region of the operators *members* at *site*, made of the candidates *chosen*.

    Empty where it keeps the limits. *neighbours* are the merged edges.
    """
    problem = program.problem
    bounds = problem.sites[site].bounds
    if bounds.max_operators is not None and len(members) > bounds.max_operators:
        return _too_many(program, members, bounds.max_operators, neighbours)
    if len(members) < bounds.min_operators:
        return [(program.leaves(members, site, program.y[o, site]), 0.0) for o in members]
    if beyond(problem, [problem.candidates[c] for c in chosen]) is not None:
        return _too_large(program, chosen, members, site, neighbours)
    return []


def _too_many(program: PlacementProgram, members: Sequence[int], most: int, neighbours: Neighbours) -> list[Row]:
    """Of any tree with more operators than a region may have, an edge is not merged."""
    sites = [
        p
        for p in sorted(program.regional)
        if (limit := program.problem.sites[p].bounds.max_operators) is not None and limit <= most
    ]
    rows = {}
    for start in members:
        tree = _tree(start, neighbours, most + 1)
        for p in sites:
            variables = [program.m[e, p] for e in _edges(program, tree) if (e, p) in program.m]
            if len(variables) == most:
                rows[tuple(sorted(variables))] = (summed((variables, -1.0)), 1.0 - most)
    return list(rows.values())


def _tree(start: int, neighbours: Neighbours, size: int) -> list[tuple[int, int]]:
    """The edges of a tree that grows from *start* until it has *size* operators."""
    seen, pending = {start}, deque([start])
    tree: list[tuple[int, int]] = []
    while pending:
        node = pending.popleft()
        for other in neighbours.get(node, ()):
            if other not in seen:
                if len(seen) == size:
                    return tree
                seen.add(other)
                tree.append((node, other))
                pending.append(other)
    return tree


def _edges(program: PlacementProgram, tree: Sequence[tuple[int, int]]) -> list[int]:
    return [program.edge_number[min(e), max(e)] for e in tree]


def _too_large(
    program: PlacementProgram, chosen: Sequence[int], members: Sequence[int], site: int, neighbours: Neighbours
) -> list[Row]:
    """Of a region with too many bytes, something changes: a merged edge, a candidate, or who reads a tensor.

    Weights only grow with a region. A tensor that lives because someone outside reads it, or because it enters, may
    live shorter in a larger region: then an edge of it to the outside is merged.
    """
    problem = program.problem
    most = problem.sites[site].bounds.max_bytes
    assert most is not None
    weights = sum(problem.candidates[c].bytes for c in chosen)
    least = sum(_least_bytes(program, o, site) for o in members)
    _step, alive = _peak(problem, members)
    certain = sum(problem.values[t].bytes for t, leaving in alive if leaving is None)
    for enough in (least + certain > most, weights + certain > most, False):
        if enough:
            alive = [(t, leaving) for t, leaving in alive if leaving is None]
            break
    heavy = weights if least + sum(problem.values[t].bytes for t, _ in alive) <= most else 0
    tree = _edges(program, _tree(members[0], neighbours, len(members)))
    kept = [program.m[e, site] for e in tree]
    picked = {program.x[c] for c in chosen} if heavy else set()
    if not heavy and len(members) == 1:
        kept.append(program.y[members[0], site])
    undone = {
        program.m[k]
        for _, leaving in alive
        if leaving is not None
        for k in [(program.edge_number[leaving], site)]
        if k in program.m
    }
    return [(summed((kept, -1.0), (picked, -1.0), (undone, 1.0)), 1.0 - len(kept) - len(picked))]


def _least_bytes(program: PlacementProgram, operator: int, site: int) -> float:
    """The least share of an operator in the weights of any candidate of *site* that covers it."""
    return min(
        c.bytes / len(c.operators)
        for c in (program.problem.candidates[k] for k in program.problem.covering[operator] if k in program.x)
        if c.site == site
    )


def _peak(problem: Problem, members: Sequence[int]) -> tuple[int, list[tuple[int, tuple[int, int] | None]]]:
    """The step at which most bytes live, and the tensors alive then.

    Beside each: None if it lives at that step in every larger region too, else an edge that is merged in each region
    where it does not.
    """
    inside = set(members)
    best: tuple[int, int, list[tuple[int, tuple[int, int] | None]]] = (-1, -1, [])
    for now in sorted(members):
        alive: list[tuple[int, tuple[int, int] | None]] = []
        for t, value in enumerate(problem.values):
            readers = [c for c in value.consumers if c in inside]
            producer = value.producer
            made = producer in inside
            if not readers and not made:
                continue
            needed = producer == now or any(c >= now for c in readers) or (made and value.result) or value.weight
            outside = [c for c in value.consumers if c not in inside]
            if producer is None or producer <= now:
                if needed:
                    alive.append((t, None))
                elif made and producer is not None and outside:
                    alive.append((t, (producer, outside[0])))
            elif needed and not made:
                alive.append((t, (producer, readers[0])))
        size = sum(problem.values[t].bytes for t, _ in alive)
        if size > best[0]:
            best = (size, now, alive)
    return best[1], best[2]
