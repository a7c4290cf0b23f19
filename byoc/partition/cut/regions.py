"""Regions as they were planned: annotations where a plan says, and nowhere else.

AnnotateTarget and MergeCompilerRegions find regions; here they are given. Tuples are no operators: they are made anew
where they are read, projections where their tuple is made, so that neither stands between the calls of a region.
Requires of the regions what ``byoc.partition.problem`` says of them.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.ir.expr import RelayExpr
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import as_function
from byoc.relay.op.annotation import compiler_begin, compiler_end
from byoc.relay.traverse import keep_type, post_order, typed_rebuild

RegionKey = tuple[str, int]  # its target and its number


def annotated_calls(func: Function, region_of: Mapping[Call, RegionKey]) -> tuple[Function, dict[RelayExpr, Call]]:
    """*func* with a begin at each edge that enters a region and an end at each that leaves one.

    And of which call of *func* each call in it was made.
    The calls of the two need not come in the same order, nor be as many: projections of tuples that are written out
    are gone, and with them the calls that nothing else reads.
    """
    annotator = _Annotator(region_of)
    made = annotator.run(func)
    return made, {new: old for old, new in annotator.made.items() if isinstance(old, Call)}


class _Annotator:
    def __init__(self, region_of: Mapping[Call, RegionKey]):
        self._region_of = region_of
        self.made: dict[RelayExpr, RelayExpr] = {}  # each node as it is inside its own region
        self._entered: dict[tuple[RelayExpr, RegionKey], RelayExpr] = {}
        self._left: dict[RelayExpr, RelayExpr] = {}

    def run(self, func: Function) -> Function:
        for node in post_order(func, open_children):
            self.made[node] = self._make(node)
        return as_function(self.made[func])

    def _make(self, node: RelayExpr) -> RelayExpr:
        region = self._region_of.get(node) if isinstance(node, Call) else None
        if region is not None:
            assert isinstance(node, Call)
            inner = open_children(node)
            callee = inner[: len(inner) - len(node.args)]
            parts = [*(self.made[c] for c in callee), *(self._enter(a, region) for a in node.args)]
            return keep_type(node, typed_rebuild(node, parts))
        if isinstance(node, TupleGetItem):
            origin = resolved(node)
            if origin is not node:
                return self.made[origin]
            if self._home(node) is not None:
                return typed_rebuild(node, [self.made[node.tuple_value]])
        parts = [self._leave(c) for c in open_children(node)]
        return typed_rebuild(node, parts) if parts else node

    def _home(self, node: RelayExpr) -> RegionKey | None:
        """The region in which *node* is made."""
        node = resolved(node)
        while isinstance(node, TupleGetItem):
            node = resolved(node.tuple_value)
        return self._region_of.get(node) if isinstance(node, Call) else None

    def _enter(self, node: RelayExpr, region: RegionKey) -> RelayExpr:
        """*node* as it is read in *region*."""
        node = resolved(node)
        if self._home(node) == region:
            return self.made[node]
        found = self._entered.get((node, region))
        if found is None:
            if isinstance(node, Tuple):
                found = typed_rebuild(node, [self._enter(f, region) for f in node.fields])
            else:
                found = compiler_begin(self._leave(node), region[0])
            self._entered[node, region] = found
        return found

    def _leave(self, node: RelayExpr) -> RelayExpr:
        """*node* as it is read outside of regions."""
        node = resolved(node)
        region = self._home(node)
        if region is None:
            return self.made[node]
        if node not in self._left:
            self._left[node] = compiler_end(self.made[node], region[0])
        return self._left[node]


def resolved(node: RelayExpr) -> RelayExpr:
    """The field that *node* is, where it projects a tuple that is written out; else itself."""
    wanted: list[int] = []
    top = node
    while True:
        while isinstance(top, TupleGetItem):
            wanted.append(top.index)
            top = top.tuple_value
        if not wanted or not isinstance(top, Tuple):
            return node
        top = top.fields[wanted.pop()]
        if not wanted:
            node = top
