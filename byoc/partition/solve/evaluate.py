"""What a solution of the placement problem costs, and whether it is one: written apart from every solver.

Requires nothing of how the solution was found; raises InternalError with the first promise that does not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from byoc.errors import InternalError
from byoc.partition.problem import HOME, Candidate, Problem, ProblemValue, region_of_operator


@dataclass(frozen=True)
class SolutionCost:
    """The parts of a solution's cost in seconds, and what its regions would have to bring besides."""

    work: float
    transfers: float
    launches: float
    min_gains: float

    @property
    def seconds(self) -> float:
        """The cost."""
        return self.work + self.transfers + self.launches

    @property
    def penalized(self) -> float:
        """The cost as solvers count it: each region also pays its site's ``min_gain``."""
        return self.seconds + self.min_gains


def cost_of(problem: Problem, chosen: Sequence[int], regions: Sequence[Sequence[int]]) -> SolutionCost:
    """The cost of choosing the candidates *chosen*, joined to *regions*."""
    candidates = problem.candidates
    site = {o: candidates[c].site for c in chosen for o in candidates[c].operators}
    region = region_of_operator(problem, regions)
    transfers = sum(
        float(problem.transfer[t, source, destination]) for t, source, destination in moves(problem, site, region)
    )
    sites = [problem.sites[candidates[r[0]].site] for r in regions]
    return SolutionCost(
        sum(candidates[c].seconds for c in chosen),
        transfers,
        sum(s.launch for s in sites),
        sum(s.bounds.min_gain for s in sites),
    )


def moves(problem: Problem, site: Mapping[int, int], region: Mapping[int, int]) -> Iterable[tuple[int, int, int]]:
    """The transfers (tensor, from, to): one for each site that needs a tensor outside of the region that makes it."""
    for number, value in enumerate(problem.values):
        if value.weight:
            continue
        source = HOME if value.producer is None else site[value.producer]
        made_in = None if value.producer is None else region.get(value.producer)
        needed = {site[c] for c in value.consumers if made_in is None or region.get(c) != made_in}
        if value.result:
            needed.add(HOME)
        yield from ((number, source, destination) for destination in sorted(needed) if (source, destination) != (0, 0))


def check(problem: Problem, chosen: Sequence[int], regions: Sequence[Sequence[int]]) -> None:
    """Raises InternalError unless *chosen* covers each operator once and *regions* keep every promise and limit."""
    candidates = problem.candidates
    covered = sorted(o for c in chosen for o in candidates[c].operators)
    if covered != list(range(problem.operators)):
        raise InternalError("a placement covers each operator once; this one does not")
    away = sorted(c for c in chosen if candidates[c].site != HOME)
    if sorted(c for r in regions for c in r) != away:
        raise InternalError("each candidate away from the host is in one region; these are not")
    region = region_of_operator(problem, regions)
    inner: dict[int, list[tuple[int, int]]] = {}
    for u, v in problem.edges:
        if u in region and region[u] == region.get(v):
            inner.setdefault(region[u], []).append((u, v))
    touching: dict[int, list[ProblemValue]] = {}
    for value in problem.values:
        for number in {region[o] for o in (*value.consumers, value.producer) if o is not None and o in region}:
            touching.setdefault(number, []).append(value)
    for number, members in enumerate(regions):
        if len({candidates[c].site for c in members}) != 1:
            raise InternalError(f"region {number} is at more than one place")
        if not connected([o for c in members for o in candidates[c].operators], inner.get(number, ())):
            raise InternalError(f"region {number} is not connected")
        why = beyond(problem, [candidates[c] for c in members], touching.get(number, ()))
        if why is not None:
            raise InternalError(f"region {number}: {why}")
    for sites, most in problem.region_limits.values():
        count = sum(candidates[r[0]].site in sites for r in regions)
        if count > most:
            names = ", ".join(problem.sites[p].name for p in sites)
            raise InternalError(f"{count} regions at {names}, which takes {most}")
    unit = {o: c for c in chosen for o in candidates[c].operators}
    if find_cycle(problem, unit):
        raise InternalError("the chosen candidates wait for one another in a cycle")
    at_home = {o: -1 - c for o, c in unit.items() if candidates[c].site == HOME}
    if find_cycle(problem, {**at_home, **region}):
        raise InternalError("the regions wait for one another in a cycle")


def is_solution(problem: Problem, chosen: Sequence[int], regions: Sequence[Sequence[int]]) -> bool:
    """Whether ``check`` has nothing against *chosen* and *regions*."""
    try:
        check(problem, chosen, regions)
    except InternalError:
        return False
    return True


def connected(operators: Iterable[int], edges: Iterable[tuple[int, int]]) -> bool:
    """Whether *operators* hang together by *edges*, the pairs between which tensors pass."""
    left = set(operators)
    neighbours: dict[int, list[int]] = {o: [] for o in left}
    for u, v in edges:
        if u in left and v in left:
            neighbours[u].append(v)
            neighbours[v].append(u)
    stack = [left.pop()] if left else []
    while stack:
        for other in neighbours[stack.pop()]:
            if other in left:
                left.remove(other)
                stack.append(other)
    return not left


def beyond(problem: Problem, members: Sequence[Candidate], values: Sequence[ProblemValue] | None = None) -> str | None:
    """Why *members* may not be one region, in words; None where they may. Says nothing of ``max_regions``.

    *values* are those that *members* read or make; None looks through all.
    """
    bounds = problem.sites[members[0].site].bounds
    count = sum(len(m.operators) for m in members)
    if bounds.max_operators is not None and count > bounds.max_operators:
        return f"{count} operators, at most {bounds.max_operators}"
    if count < bounds.min_operators:
        return f"{count} operators, at least {bounds.min_operators}"
    if bounds.max_bytes is not None:
        size = region_bytes(members, problem.values if values is None else values)
        if size > bounds.max_bytes:
            return f"{size} bytes of weights and activations, at most {bounds.max_bytes}"
    return None


def region_bytes(members: Sequence[Candidate], values: Sequence[ProblemValue]) -> int:
    """The bytes that a region needs: its weights, each once, and the most bytes of tensors that live at once.

    Operators run in the order of their numbers; what enters lives from the beginning to its last reader, what leaves
    from its maker to the end.
    """
    inside = sorted(o for m in members for o in m.operators)
    step = {o: k for k, o in enumerate(inside)}
    change = [0] * (len(inside) + 1)
    for value in values:
        readers = [step[c] for c in value.consumers if c in step]
        begin = 0 if value.producer is None or value.producer not in step else step[value.producer]
        made_here = value.producer is not None and value.producer in step
        if not readers and not made_here:
            continue
        leaves = made_here and (value.result or any(c not in step for c in value.consumers))
        end = len(inside) - 1 if leaves or value.weight else max(readers, default=begin)
        change[begin] += value.bytes
        change[end + 1] -= value.bytes
    live = peak = 0
    for delta in change:
        live += delta
        peak = max(peak, live)
    return sum(m.bytes for m in members) + peak


def find_cycle(problem: Problem, region: Mapping[int, int]) -> list[tuple[int, int]]:
    """Edges of a cycle in the graph whose nodes are the regions and the operators outside; empty where none is."""

    def node(operator: int) -> tuple[int, int]:
        return (1, region[operator]) if operator in region else (0, operator)

    after: dict[tuple[int, int], list[tuple[tuple[int, int], tuple[int, int]]]] = {}
    for u, v in problem.edges:
        if node(u) != node(v):
            after.setdefault(node(u), []).append((node(v), (u, v)))
    state: dict[tuple[int, int], int] = {}
    for start in list(after):
        if state.get(start):
            continue
        path: list[tuple[int, int]] = []
        stack = [(start, iter(after.get(start, ())))]
        state[start] = 1
        on_path = [start]
        while stack:
            _, rest = stack[-1]
            for target, edge in rest:
                if state.get(target) == 1:
                    return [*path[on_path.index(target) :], edge]
                if not state.get(target):
                    state[target] = 1
                    path.append(edge)
                    on_path.append(target)
                    stack.append((target, iter(after.get(target, ()))))
                    break
            else:
                state[stack.pop()[0]] = 2
                on_path.pop()
                if path:
                    path.pop()
    return []
