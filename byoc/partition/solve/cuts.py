"""Rows that cut off what a placement program allows and the problem does not.

Each is kept by every solution and broken by the point at hand. *Fractional* cuts come from a pool known beforehand
(cycles of few edges, paths beside an edge); *integer* cuts come from looking at the regions that a whole-numbered
point describes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from byoc.partition.problem import HOME
from byoc.partition.solve.limit_cuts import limit_cuts
from byoc.partition.solve.paths import Edge, components, cycles, path_inside
from byoc.partition.solve.program import PlacementProgram, Row, summed

MARGIN = 1e-6
LONGEST_CIRCLE = 40


class Pool:
    """Cuts of a placement program known beforehand: forests on short cycles, and paths beside edges."""

    def __init__(self, program: PlacementProgram):
        self.program = program
        self.rings = _rings(program) if program.regional else []
        self.sites = sorted(program.regional)

    def broken(self, values: np.ndarray) -> list[Row]:
        """Rows of the pool that *values* break."""
        return [*self._rings_broken(values), *self._paths_broken(values)]

    def _rings_broken(self, values: np.ndarray) -> Iterable[Row]:
        program = self.program
        for members, edges in self.rings:
            for p in self.sites:
                located = {o: program.y[o, p] for o in members if (o, p) in program.y}
                forest = [program.f[e, p] for e in edges if (e, p) in program.f]
                if not forest:
                    continue
                root = max(located, key=lambda o: (values[located[o]], -o))
                allowed = sum(values[y] for y in located.values()) - values[located[root]]
                if sum(values[f] for f in forest) > allowed + MARGIN:
                    yield _forest_row(forest, located, root)

    def _paths_broken(self, values: np.ndarray) -> Iterable[Row]:
        m = self.program.m
        for e, inner in self.program.bypassed.items():
            for p in self.sites:
                if (e, p) not in m:
                    continue
                for k in inner:
                    if (k, p) not in m:
                        if values[m[e, p]] > MARGIN:
                            yield {m[e, p]: -1.0}, 0.0
                            break
                    elif values[m[e, p]] > values[m[k, p]] + MARGIN:
                        yield {m[k, p]: 1.0, m[e, p]: -1.0}, 0.0


def _forest_row(forest: Sequence[int], located: dict[int, int], root: int) -> Row:
    """A forest on these operators has fewer edges than operators: of those at the site, one has no edge of its own."""
    return summed((forest, -1.0), ((y for o, y in located.items() if o != root), 1.0)), 0.0


def _rings(program: PlacementProgram) -> list[tuple[list[int], list[int]]]:
    """Short undirected cycles, as (operators, edges among them): one for each edge that closes one."""
    edges = [(k, e) for k, e in enumerate(program.problem.edges) if k not in program.bypassed]
    neighbours: dict[int, list[int]] = {}
    number = {}
    rings = {}
    for k, (u, v) in edges:
        way = path_inside(u, v, neighbours) if u in neighbours and v in neighbours else []
        if way and len(way) <= LONGEST_CIRCLE:
            rings[tuple(sorted(way))] = way
        neighbours.setdefault(u, []).append(v)
        neighbours.setdefault(v, []).append(u)
        number[u, v] = k
    return [(sorted(ring), _inner(program, ring)) for ring in rings.values()]


def _inner(program: PlacementProgram, members: Iterable[int]) -> list[int]:
    """The edges among *members* that forests may use, by number."""
    inside = set(members)
    return [
        k for k, (u, v) in enumerate(program.problem.edges) if u in inside and v in inside and k not in program.bypassed
    ]


def described_regions(program: PlacementProgram, values: np.ndarray) -> tuple[tuple[int, ...], ...]:
    """The regions of the whole-numbered point *values*: what merged edges connect, or a candidate alone."""
    problem = program.problem
    root = components(problem.operators, [problem.edges[e] for e, _ in program.merged_edges(values)])
    regions: dict[tuple[int, int], list[int]] = {}
    for c in program.chosen(values):
        candidate = problem.candidates[c]
        if candidate.site != HOME:
            alone = -1 - c if candidate.site not in program.regional else root[candidate.operators[0]]
            regions.setdefault((candidate.site, alone), []).append(c)
    return tuple(sorted(tuple(r) for r in regions.values()))


def integer_cuts(program: PlacementProgram, values: np.ndarray) -> list[Row]:
    """Rows that the whole-numbered point *values* breaks; none where its regions are a solution."""
    problem = program.problem
    chosen = program.chosen(values)
    site = {o: problem.candidates[c].site for c in chosen for o in problem.candidates[c].operators}
    by_candidate = {o: k for k, c in enumerate(chosen) for o in problem.candidates[c].operators}
    rows = [_candidate_circle(program, chosen, by_candidate, ring) for ring in cycles(problem, by_candidate)]
    if rows or not program.regional:
        return [r for r in rows if r[0]]
    merged = program.merged_edges(values)
    root = components(problem.operators, [problem.edges[e] for e, _ in merged])
    neighbours: dict[int, list[int]] = {}
    for e, _ in merged:
        u, v = problem.edges[e]
        neighbours.setdefault(u, []).append(v)
        neighbours.setdefault(v, []).append(u)
    unit = {
        o: root[o] if site[o] in program.regional else problem.operators + by_candidate[o]
        for o in range(problem.operators)
        if site[o] in program.regional or len(problem.candidates[chosen[by_candidate[o]]].operators) > 1
    }
    for ring in cycles(problem, unit):
        rows += _region_circle(program, chosen, by_candidate, site, neighbours, ring)
    regions: dict[int, list[int]] = {}
    for o in range(problem.operators):
        if site[o] in program.regional:
            regions.setdefault(root[o], []).append(o)
    rows += _torn(program, chosen, root)
    for members in regions.values():
        p = site[members[0]]
        rows += _forest_cuts(program, values, members, p)
        if not rows:
            inside = set(members)
            whole = [c for c in chosen if problem.candidates[c].operators[0] in inside]
            rows += limit_cuts(program, whole, members, p, neighbours)
    return rows


def _candidate_circle(
    program: PlacementProgram, chosen: Sequence[int], unit: Mapping[int, int], ring: Sequence[Edge]
) -> Row:
    """Not all candidates of a cycle are chosen; one that a path enters and leaves by one operator does not count."""
    turning = {program.x[chosen[unit[tail]]] for head, tail in _passages(ring) if head != tail}
    return summed((turning, -1.0)), 1.0 - len(turning)


def _passages(ring: Sequence[Edge]) -> list[Edge]:
    """For each unit of a cycle the operator by which the cycle enters it, and that by which it leaves."""
    return [(entering[1], leaving[0]) for entering, leaving in zip([ring[-1], *ring[:-1]], ring, strict=True)]


def _region_circle(
    program: PlacementProgram,
    chosen: Sequence[int],
    by_candidate: Mapping[int, int],
    site: Mapping[int, int],
    neighbours: Mapping[int, Sequence[int]],
    ring: Sequence[Edge],
) -> list[Row]:
    """If all paths inside the units of a cycle are merged, all of the cycle is one region."""
    inner: list[tuple[int, int]] = []  # (edge, site)
    fixed: set[int] = set()
    for head, tail in _passages(ring):
        if head == tail:
            continue
        if site[head] not in program.regional:
            fixed.add(program.x[chosen[by_candidate[head]]])
            continue
        way = path_inside(head, tail, neighbours)
        inner += [(program.edge_number[min(e), max(e)], site[head]) for e in itertools.pairwise(way)]
    inner = list(dict.fromkeys(inner))
    if fixed or len({p for _, p in inner}) > 1:
        kept = [program.m[k] for k in inner]
        return [(summed((kept, -1.0), (fixed, -1.0)), 1.0 - len(kept) - len(fixed))]
    rows: list[Row] = []
    for p in sorted(program.regional):
        if not all((e, p) in program.m for e, _ in inner):
            continue
        kept = [program.m[e, p] for e, _ in inner]
        for e in ring:
            closing = [program.m[k] for k in [(program.edge_number[e], p)] if k in program.m]
            rows.append((summed((kept, -1.0), (closing, 1.0)), 1.0 - len(kept)))
    return rows


def _torn(program: PlacementProgram, chosen: Sequence[int], root: Sequence[int]) -> list[Row]:
    """A candidate whose operators lie in several regions: merged edges must lead out of each part."""
    rows: list[Row] = []
    for c in chosen:
        candidate = program.problem.candidates[c]
        if candidate.site in program.regional and len({root[o] for o in candidate.operators}) > 1:
            for part in sorted({root[o] for o in candidate.operators}):
                members = {o for o in range(program.problem.operators) if root[o] == part}
                rows.append((program.leaves(members, candidate.site, program.x[c]), 0.0))
    return rows


def _forest_cuts(program: PlacementProgram, values: np.ndarray, members: Sequence[int], p: int) -> list[Row]:
    """Cuts for cycles in the forest of one region."""
    edges = [e for e in _inner(program, members) if (e, p) in program.f]
    forest = [program.f[e, p] for e in edges]
    if sum(values[f] for f in forest) <= len(members) - 1 + MARGIN:
        return []
    rows: list[Row] = []
    neighbours: dict[int, list[int]] = {}
    for e in sorted(edges, key=lambda e: -values[program.f[e, p]]):
        u, v = program.problem.edges[e]
        ring = path_inside(u, v, neighbours) if u in neighbours and v in neighbours else []
        if ring:
            inner = [program.f[k, p] for k in _inner(program, ring) if (k, p) in program.f]
            if sum(values[f] for f in inner) > len(ring) - 1 + MARGIN:
                located = {o: program.y[o, p] for o in ring}
                rows += [_forest_row(inner, located, r) for r in ring[:LONGEST_CIRCLE]]
                continue
        neighbours.setdefault(u, []).append(v)
        neighbours.setdefault(v, []).append(u)
    if not rows:
        located = {o: program.y[o, p] for o in members}
        rows = [_forest_row(forest, located, r) for r in members[:LONGEST_CIRCLE]]
    return rows
