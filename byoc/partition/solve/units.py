"""The chosen candidates as a graph of units, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import InternalError
from byoc.partition.problem import Problem


@dataclass(frozen=True)
class Units:
    """One unit for each chosen candidate: its number, its site, whom it reads and who reads it.

    ``order`` is topological and goes on with what became ready last, so that neighbours stand near each other.
    """

    candidates: tuple[int, ...]
    site: list[int]
    parents: list[list[int]]
    children: list[list[int]]
    order: list[int]
    unit_of: list[int]


def units_of(problem: Problem, chosen: Sequence[int]) -> Units:
    """The units of the candidates *chosen*, which cover each operator once.

    Raises InternalError where they wait for one another in a circle.
    """
    unit_of = [0] * problem.operators
    for unit, c in enumerate(chosen):
        for operator in problem.candidates[c].operators:
            unit_of[operator] = unit
    parents: list[dict[int, None]] = [{} for _ in chosen]
    children: list[dict[int, None]] = [{} for _ in chosen]
    for u, v in problem.edges:
        a, b = unit_of[u], unit_of[v]
        if a != b:
            parents[b][a] = None
            children[a][b] = None
    order = topological_order([list(p) for p in parents], [list(c) for c in children])
    if len(order) < len(chosen):
        raise InternalError("the chosen candidates wait for one another in a circle")
    return Units(
        tuple(chosen), [problem.candidates[c].site for c in chosen],
        [list(p) for p in parents], [list(c) for c in children], order, unit_of,
    )


def topological_order(parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]) -> list[int]:
    """An order with parents first that goes on with what became ready last; shorter than all where circles are."""
    waiting = [len(p) for p in parents]
    ready = [u for u in range(len(parents) - 1, -1, -1) if not waiting[u]]
    order = []
    while ready:
        unit = ready.pop()
        order.append(unit)
        for child in reversed(children[unit]):
            waiting[child] -= 1
            if not waiting[child]:
                ready.append(child)
    return order
