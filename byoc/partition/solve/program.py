"""The placement problem as an integer program: variables, rows, and how they are kept.

Variables, all between 0 and 1: ``x[c]`` a candidate is chosen; ``y[o, p]`` operator o is at p (the sum of its
candidates'); ``w[e, p, q]`` the ends of edge e are at p and q; ``z[t, p, q]`` tensor t is brought from p to q, shared
by all that read it there; ``m[e, p]`` the ends of e are in one region at p; ``f[e, p]`` e is in a spanning forest of
the regions, so that regions at p are ``sum_o y[o, p] - sum_e f[e, p]``. An edge that a longer path bypasses needs no f:
where its ends share a region, that path does. Forests, limits and cycles are cut off when they occur (``cuts.py``).
Source: the local polytope of pairwise labellings (Schlesinger, 1976) and generalized subtour
elimination for forests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.paths import bypassed_edges

Row = tuple[Mapping[int, float], float]  # coefficients by variable, and what their sum must at least be


def summed(*terms: tuple[Iterable[int], float]) -> dict[int, float]:
    """The coefficients of a row in which a variable may occur several times: (variables, coefficient of each)."""
    row: dict[int, float] = {}
    for variables, coefficient in terms:
        for v in variables:
            row[v] = row.get(v, 0.0) + coefficient
    return row


@dataclass
class IntegerProgram:
    """Variables with costs, and rows: sums that equal a number, sums that are at least one."""

    costs: list[float] = field(default_factory=list)
    integral: list[bool] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    equal: list[Row] = field(default_factory=list)
    at_least: list[Row] = field(default_factory=list)

    def variable(self, cost: float = 0.0, integral: bool = False) -> int:
        """A new variable between 0 and 1."""
        self.costs.append(cost)
        self.integral.append(integral)
        self.upper.append(1.0)
        return len(self.costs) - 1


class PlacementProgram:
    """The program of *problem* with the candidates *usable*, and which variable is which."""

    def __init__(self, problem: Problem, usable: Sequence[int]):
        self.problem = problem
        self.usable = tuple(usable)
        self.program = IntegerProgram()
        self.x = {c: self.program.variable(problem.candidates[c].seconds, True) for c in usable}
        self.regional = {p for p in range(1, len(problem.sites)) if self._has_regions(p)}
        self.y: dict[tuple[int, int], int] = {}
        self.w: dict[tuple[int, int, int], int] = {}
        self.m: dict[tuple[int, int], int] = {}
        self.f: dict[tuple[int, int], int] = {}
        self.edge_number = {e: k for k, e in enumerate(problem.edges)}
        self.sites_of = [
            sorted({problem.candidates[c].site for c in covering if c in self.x}) for covering in problem.covering
        ]
        self.bypassed = bypassed_edges(problem) if self.regional else {}
        self._cover()
        self._locate()
        self._pair()
        self._bring()
        self._join()
        self._count()

    def _has_regions(self, site: int) -> bool:
        """Whether it matters at *site* which operators share a region."""
        place = self.problem.sites[site]
        b = place.bounds
        return bool(
            place.launch + b.min_gain > 0
            or site in self.problem.region_limits
            or b.min_operators > 1
            or b.max_bytes is not None
            or self.problem.transfer[:, site, site].any()
        )

    def _cover(self) -> None:
        for covering in self.problem.covering:
            self.program.equal.append(({self.x[c]: 1.0 for c in covering if c in self.x}, 1.0))

    def _locate(self) -> None:
        for operator, covering in enumerate(self.problem.covering):
            for site in self.sites_of[operator]:
                of = [self.x[c] for c in covering if c in self.x and self.problem.candidates[c].site == site]
                if len(of) == 1:
                    self.y[operator, site] = of[0]
                    continue
                y = self.y[operator, site] = self.program.variable()
                self.program.equal.append(({y: 1.0, **dict.fromkeys(of, -1.0)}, 0.0))

    def _pair(self) -> None:
        shared: dict[tuple[int, int], list[int]] = {}
        for c in self.usable:
            candidate = self.problem.candidates[c]
            for k, u in enumerate(candidate.operators):
                for v in candidate.operators[k + 1 :]:
                    if (u, v) in self.edge_number:
                        shared.setdefault((self.edge_number[u, v], candidate.site), []).append(self.x[c])
        self.shared = shared
        rows = self.program
        for e, (u, v) in enumerate(self.problem.edges):
            for p in self.sites_of[u]:
                for q in self.sites_of[v]:
                    self.w[e, p, q] = rows.variable()
            for p in self.sites_of[u]:
                rows.equal.append(({self.y[u, p]: -1.0, **{self.w[e, p, q]: 1.0 for q in self.sites_of[v]}}, 0.0))
            for q in self.sites_of[v]:
                rows.equal.append(({self.y[v, q]: -1.0, **{self.w[e, p, q]: 1.0 for p in self.sites_of[u]}}, 0.0))
            for p in set(self.sites_of[u]) & set(self.sites_of[v]):
                if (e, p) in shared:
                    rows.at_least.append(({self.w[e, p, p]: 1.0, **dict.fromkeys(shared[e, p], -1.0)}, 0.0))

    def _bring(self) -> None:
        """A transfer variable for each tensor, source and destination that cost something."""
        self.z: dict[tuple[int, int, int], int] = {}
        for t, value in enumerate(self.problem.values):
            sources = [HOME] if value.producer is None else self.sites_of[value.producer]
            for p in sources:
                for q in range(len(self.problem.sites)):
                    if self.problem.transfer[t, p, q] <= 0:
                        continue
                    needing = [c for c in value.consumers if q in self.sites_of[c]]
                    if needing or (value.result and q == HOME):
                        self._bring_one(t, p, q, needing)

    def _bring_one(self, t: int, p: int, q: int, needing: Sequence[int]) -> None:
        value, rows = self.problem.values[t], self.program
        z = self.z[t, p, q] = rows.variable(float(self.problem.transfer[t, p, q]))
        for consumer in needing:
            if value.producer is None:
                rows.at_least.append(({z: 1.0, self.y[consumer, q]: -1.0}, 0.0))
                continue
            e = self.edge_number[value.producer, consumer]
            needs = {z: 1.0, self.w[e, p, q]: -1.0}
            if p == q:
                needs[self.merged(e, p)] = 1.0
            rows.at_least.append((needs, 0.0))
        if value.result and q == HOME and value.producer is not None:
            rows.at_least.append(({z: 1.0, self.y[value.producer, p]: -1.0}, 0.0))

    def merged(self, edge: int, site: int) -> int:
        """The variable that says that both ends of *edge* are in one region at *site*."""
        if (edge, site) not in self.m:
            self.m[edge, site] = self.program.variable(0.0, True)
            self.program.at_least.append(({self.w[edge, site, site]: 1.0, self.m[edge, site]: -1.0}, 0.0))
            if (edge, site) in self.shared:
                inside = dict.fromkeys(self.shared[edge, site], -1.0)
                self.program.at_least.append(({self.m[edge, site]: 1.0, **inside}, 0.0))
        return self.m[edge, site]

    def _join(self) -> None:
        for e in range(len(self.problem.edges)):
            for p in sorted(self.regional):
                if (e, p, p) in self.w:
                    self.merged(e, p)

    def _count(self) -> None:
        """Forest variables, and the number of regions as a sum: its cost, its limit, and what limits say of it."""
        for p in sorted(self.regional):
            place = self.problem.sites[p]
            price = place.launch + place.bounds.min_gain
            located = [self.y[o, p] for o in range(self.problem.operators) if (o, p) in self.y]
            for y in located:
                self.program.costs[y] += price
            for e in range(len(self.problem.edges)):
                if (e, p) in self.m and e not in self.bypassed:
                    f = self.f[e, p] = self.program.variable(-price)
                    self.program.at_least.append(({self.m[e, p]: 1.0, f: -1.0}, 0.0))
            forest = [f for (_, site), f in self.f.items() if site == p]
            self._limit(p, located, forest)
        for sites, most in dict.fromkeys(self.problem.region_limits.values()):
            located = [y for (_, p), y in self.y.items() if p in sites]
            forest = [f for (_, p), f in self.f.items() if p in sites]
            self.program.at_least.append((summed((forest, 1.0), (located, -1.0)), -float(most)))

    def _limit(self, p: int, located: Sequence[int], forest: Sequence[int]) -> None:
        bounds, rows = self.problem.sites[p].bounds, self.program.at_least
        if bounds.max_operators:
            share = 1.0 - 1.0 / bounds.max_operators
            rows.append((summed((forest, -1.0), (located, share)), 0.0))
        if bounds.min_operators > 1:
            for o in range(self.problem.operators):
                if (o, p) in self.y:
                    rows.append((self.leaves({o}, p, self.y[o, p]), 0.0))

    def leaves(self, members: Iterable[int], site: int, located: int) -> dict[int, float]:
        """At least 0: if *located*, a merged edge leads out of *members*."""
        inside = set(members)
        row = {located: -1.0}
        for e, (u, v) in enumerate(self.problem.edges):
            if (u in inside) != (v in inside) and (e, site) in self.m:
                row[self.m[e, site]] = 1.0
        return row

    def chosen(self, values: np.ndarray) -> list[int]:
        """The candidates that the variables *values* choose."""
        return [c for c in self.usable if values[self.x[c]] > 0.5]

    def merged_edges(self, values: np.ndarray) -> list[tuple[int, int]]:
        """The (edge, site) that the variables *values* put into one region."""
        return [key for key, m in self.m.items() if values[m] > 0.5]
