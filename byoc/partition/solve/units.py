"""The chosen candidates as a graph of units, in an order in which they can run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import InternalError
from byoc.partition.problem import Problem


@dataclass(frozen=True)
class UnitGraph:
    """One unit for each chosen candidate: its number, its site, whom it reads and who reads it.

    ``order`` is topological and goes on with what became ready last, so that neighbours stand near each other.
    """

    candidates: tuple[int, ...]
    site: list[int]
    parents: list[list[int]]
    children: list[list[int]]
    order: list[int]
    unit_of: list[int]


def units_of(problem: Problem, chosen: Sequence[int]) -> UnitGraph:
    """The units of the candidates *chosen*, which cover each operator once.

    Raises InternalError where they wait for one another in a cycle.
    """
    unit_of, parents, children = _graph(problem, chosen)
    order = topological_order(parents, children)
    if len(order) < len(chosen):
        raise InternalError("the chosen candidates wait for one another in a cycle")
    site = [problem.candidates[c].site for c in chosen]
    return UnitGraph(tuple(chosen), site, parents, children, order, unit_of)


def can_run(problem: Problem, chosen: Sequence[int]) -> bool:
    """Whether no candidates of *chosen* wait for one another in a cycle."""
    _, parents, children = _graph(problem, chosen)
    return len(topological_order(parents, children)) == len(chosen)


def _graph(problem: Problem, chosen: Sequence[int]) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """The unit of each operator, whom each unit reads, and who reads it."""
    unit_of = [0] * problem.operators
    for unit, c in enumerate(chosen):
        for operator in problem.candidates[c].operators:
            unit_of[operator] = unit
    parents: list[list[int]] = [[] for _ in chosen]
    children: list[list[int]] = [[] for _ in chosen]
    for u, v in problem.edges:
        a, b = unit_of[u], unit_of[v]
        if a != b:
            parents[b].append(a)
            children[a].append(b)
    return unit_of, [list(dict.fromkeys(p)) for p in parents], [list(dict.fromkeys(c)) for c in children]


def topological_order(parents: Sequence[Sequence[int]], children: Sequence[Sequence[int]]) -> list[int]:
    """An order with parents first that goes on with what became ready last; shorter than all where there are cycles."""
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
