"""MergeCompilerRegions: neighbouring regions of one target become one. Source: the pass of that name in Relay.

Regions are visited parents first. A region takes in each parent region of its own target, unless another path leads
from that parent to it through something else: then the two would wait for each other. Relay keeps sets of such
restrictions, whose sizes grow with the graph; here the paths are searched, within levels (a region's level is above
those of all its parents), and most are settled by a spanning tree before any search.
"""

from __future__ import annotations

from byoc.ir.collector import paused_collector
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.ancestor_tree import AncestorTree
from byoc.relay.analysis.regions.annotated_regions import AnnotatedRegion, open_children
from byoc.relay.analysis.regions.region_checks import check_regions
from byoc.relay.analysis.regions.region_graph import RegionGraph
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function
from byoc.relay.op.annotation import is_begin, is_end
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import typed_rebuild


def MergeCompilerRegions() -> FunctionPass:
    """The pass that joins regions of one target wherever no region then waits for another.

    Raises InternalError naming the regions if any were to wait for each other.
    """

    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return merge_regions(func)

    return FunctionPass(
        merge, PassInfo("MergeCompilerRegions", ends=REWRITES, law=Law("marks of regions are no part of a value"))
    )


@paused_collector()
def merge_regions(func: Function) -> Function:
    """*func* without the annotations between regions that become one.

    Raises InternalError naming the regions if any were to wait for each other.
    """
    graph = check_regions(func, "MergeCompilerRegions")
    merger = _Merger(graph)
    unit_of = graph.unit_of

    after: dict[RelayExpr, RelayExpr] = {}
    for node in graph.nodes:
        if is_begin(node):
            end = node.args[0]
            if is_end(end) and merger.find(unit_of[node]) == merger.find(unit_of[end]):
                after[node] = after[end.args[0]]
                continue
        inner = open_children(node)
        after[node] = typed_rebuild(node, [after[c] for c in inner]) if inner else node
    merged = as_function(after[func])
    if not merger.is_ordered():
        check_regions(merged, "MergeCompilerRegions")
    return merged


class _Merger:
    """Which units became one: a union-find over the units of a graph, with their parents and levels."""

    def __init__(self, graph: RegionGraph):
        self._regions: list[AnnotatedRegion | None] = graph.region
        self._above: list[list[int]] = [list(p) for p in graph.parents]
        self._below: list[list[int]] = [[] for _ in graph.parents]
        self._level = [0] * len(graph.parents)
        self._union = list(range(len(graph.parents)))
        self._scopes = graph.scopes()
        self._tree = AncestorTree()
        self._place = [0] * len(graph.parents)
        for unit in graph.order()[0]:
            self._visit(unit)

    def find(self, unit: int) -> int:
        """The unit that *unit* has become."""
        union = self._union
        while union[unit] != unit:
            union[unit] = union[union[unit]]
            unit = union[unit]
        return unit

    def is_ordered(self) -> bool:
        """True when every unit lies above all that it depends on, so that none waits for another."""
        level = self._level
        units = (unit for unit, top in enumerate(self._union) if unit == top)
        return all(level[parent] < level[unit] for unit in units for parent in self._parents(unit))

    def _visit(self, unit: int) -> None:
        direct = self._above[unit]
        parents = list(dict.fromkeys(self.find(p) for p in direct))
        self._level[unit] = 1 + max((self._level[p] for p in parents), default=-1)
        # the spanning tree: a path that exists now exists whatever is merged later
        deepest = max(direct, key=lambda p: self._tree.depth[self._place[p]], default=None)
        self._place[unit] = self._tree.add(0 if deepest is None else self._place[deepest])
        for parent in parents:
            self._below[parent].append(unit)
        candidates = [p for p in parents if self._fits(p, unit)]
        waiting = self._above_others(candidates, parents) if len(candidates) > 1 else set(candidates)
        free = [p for p in candidates if p not in waiting]
        if free:
            self._merge(free, unit)
        for parent in candidates:
            if parent in waiting and not self._is_bypassed(parent, unit, direct):
                self._merge([parent], unit)

    def _above_others(self, candidates: list[int], parents: list[int]) -> set[int]:
        """Those of *candidates* from which a path leads to another of *parents*; nothing bypasses the others."""
        lowest = min(self._level[c] for c in candidates)
        reached: set[int] = set()
        pending = list(parents)
        while pending:
            for found in self._parents(pending.pop()):
                if found not in reached and self._level[found] >= lowest:
                    reached.add(found)
                    pending.append(found)
        return reached.intersection(candidates)

    def _fits(self, parent: int, unit: int) -> bool:
        mine, other = self._regions[unit], self._regions[parent]
        if mine is None or other is None or mine.target != other.target:
            return False
        return self._scopes[parent] == self._scopes[unit]

    def _is_bypassed(self, parent: int, unit: int, direct: list[int]) -> bool:
        """True when a path leads from *parent* to *unit* through another unit."""
        me = self.find(unit)
        others = [p for p in direct if self.find(p) not in (parent, me)]
        stems = [p for p in direct if self.find(p) == parent]
        for other in others:
            if any(self._tree.is_above(self._place[stem], self._place[other]) for stem in stems):
                return True
        level = self._level[parent]
        seen = {me}
        pending = [me]
        while pending:
            for found in self._parents(pending.pop()):
                if found == parent:
                    continue
                if found not in seen and self._level[found] > level:
                    if parent in self._parents(found):
                        return True
                    seen.add(found)
                    pending.append(found)
        return False

    def _parents(self, unit: int) -> list[int]:
        """The units that *unit* depends on as they are now."""
        now = dict.fromkeys(self.find(p) for p in self._above[unit])
        now.pop(unit, None)
        self._above[unit] = list(now)
        return self._above[unit]

    def _merge(self, parents: list[int], unit: int) -> None:
        """Make *parents* and *unit* one; the one with fewer neighbours is added to the other."""
        level = max(self._level[p] for p in parents)
        for parent in parents:
            unit = self.find(unit)
            size = [len(self._above[u]) + len(self._below[u]) for u in (parent, unit)]
            keep, gone = (parent, unit) if size[0] >= size[1] else (unit, parent)
            self._union[gone] = keep
            self._above[keep] += self._above[gone]
            self._below[keep] += self._below[gone]
            self._above[gone], self._below[gone] = [], []
        unit = self.find(unit)
        self._level[unit] = max(level, 1 + max((self._level[p] for p in self._parents(unit)), default=-1))
        self._lift(unit)

    def _lift(self, unit: int) -> None:
        """Raise what depends on *unit* above it."""
        pending = [unit]
        while pending:
            top = pending.pop()
            below = dict.fromkeys(self.find(u) for u in self._below[top])
            below.pop(top, None)
            self._below[top] = list(below)
            for lower in below:
                if self._level[lower] <= self._level[top]:
                    self._level[lower] = self._level[top] + 1
                    pending.append(lower)
