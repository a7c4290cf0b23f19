"""Cuts for limits that a larger region breaks too: of a tree of too many or too heavy operators an edge is not merged.

For each operator a tree grows along the edges that the point at hand merges most, as long as it may break such a cut;
the smallest part of it that is beyond the limits gives one. Source: cover inequalities (Balas, 1975).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from byoc.partition.solve.program import PlacementProgram, Row, summed
from byoc.partition.solve.region_bytes import RegionBytes

MARGIN = 1e-6


class Covers:
    """Cover cuts of a placement program, for every site whose regions have a size."""

    def __init__(self, program: PlacementProgram):
        self.program = program
        problem = program.problem
        self.sizes = RegionBytes(problem)
        self.sites = [
            p
            for p in sorted(program.regional)
            if problem.sites[p].bounds.max_operators is not None or problem.sites[p].bounds.max_bytes is not None
        ]
        self.near: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for (e, p), m in program.m.items():
            if p in self.sites:
                u, v = problem.edges[e]
                self.near.setdefault((u, p), []).append((v, m))
                self.near.setdefault((v, p), []).append((u, m))
        self.weight = {key: self._least_bytes(*key) for key in program.y if key[1] in self.sites}

    def _least_bytes(self, operator: int, site: int) -> float:
        problem = self.program.problem
        options = (problem.candidates[c] for c in problem.covering[operator] if c in self.program.x)
        return min(c.bytes / len(c.operators) for c in options if c.site == site)

    def broken(self, values: np.ndarray) -> list[Row]:
        """Rows that *values* break."""
        rows: dict[tuple[int, ...], Row] = {}
        for p in self.sites:
            for operator in range(self.program.problem.operators):
                if (operator, p) in self.near:
                    edges = self._smallest(*self._tree(values, operator, p), p)
                    if edges:
                        rows[tuple(sorted(edges))] = summed((edges, -1.0)), 1.0 - len(edges)
        return list(rows.values())

    def _tree(self, values: np.ndarray, start: int, site: int) -> tuple[list[int], list[int]]:
        """Operators and merged variables of a tree from *start*, the best merged first, that misses less than one."""
        inside, edges, missing = [start], [], 0.0
        seen = {start}
        reach = [(1.0 - values[m], other, m) for other, m in self.near[start, site]]
        heapq.heapify(reach)
        while reach:
            lack, other, m = heapq.heappop(reach)
            if other in seen:
                continue
            missing += max(0.0, lack)
            if missing >= 1.0 - MARGIN:
                break
            seen.add(other)
            inside.append(other)
            edges.append(m)
            for further, edge in self.near.get((other, site), ()):
                if further not in seen:
                    heapq.heappush(reach, (1.0 - values[edge], further, edge))
        return inside, edges

    def _smallest(self, inside: Sequence[int], edges: Sequence[int], site: int) -> list[int]:
        """The edges of the first operators of *inside* that are too many together; empty where all may be."""
        if not self._is_too_much(inside, site):
            return []
        low, high = 1, len(inside)
        while low < high:
            middle = (low + high) // 2
            if self._is_too_much(inside[:middle], site):
                high = middle
            else:
                low = middle + 1
        return list(edges[: high - 1])

    def _is_too_much(self, inside: Sequence[int], site: int) -> bool:
        """Whether every region with all of *inside* is beyond the limits of *site*."""
        bounds = self.program.problem.sites[site].bounds
        if bounds.max_operators is not None and len(inside) > bounds.max_operators:
            return True
        if bounds.max_bytes is None:
            return False
        weights = sum(self.weight[o, site] for o in inside)
        return weights + self.sizes.certain_peak(sorted(inside)) > bounds.max_bytes + MARGIN
