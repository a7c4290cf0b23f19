"""The regions that annotations enclose. Source: ``relay.analysis.AnnotatedRegionSet``.

A region is what lies between ``compiler_begin`` and ``compiler_end``. Regions are numbered by the begins in the order
of visiting; an operator joins the regions of its arguments into the first of them, so numbers have gaps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from byoc.errors import PartitionError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.relay.expr import Call, Function
from byoc.relay.op.annotation import BEGIN, END, compiler_of, is_begin, is_end
from byoc.relay.traverse import children, enters_calls, post_order


class AnnotatedRegion:
    """One region: its number, its target, the begins that enter it, the ends that leave it, and all its nodes.

    The begins and ends are nodes of the region too.
    """

    __slots__ = ("_content", "_flat", "id", "target")

    def __init__(self, number: int, target: str):
        self.id = number
        self.target = target
        self._content: list[RelayExpr | AnnotatedRegion] = []
        self._flat: tuple[RelayExpr, ...] | None = None

    @property
    def nodes(self) -> tuple[RelayExpr, ...]:
        """Its nodes; those of regions that it took over stand where they were joined."""
        if self._flat is None:
            flat: list[RelayExpr] = []
            stack = [iter(self._content)]
            while stack:
                item = next(stack[-1], None)
                if item is None:
                    stack.pop()
                elif isinstance(item, AnnotatedRegion):
                    stack.append(iter(item._content))
                else:
                    flat.append(item)
            self._flat = tuple(flat)
        return self._flat

    @property
    def args(self) -> list[Call]:
        """The begins that enter it."""
        return [n for n in self.nodes if is_begin(n)]

    @property
    def rets(self) -> list[Call]:
        """The ends that leave it."""
        return [n for n in self.nodes if is_end(n)]

    def add(self, item: RelayExpr | AnnotatedRegion) -> None:
        """Make an expression a node of this region, or take over all of another region."""
        self._content.append(item)
        self._flat = None

    def __repr__(self) -> str:
        return f"AnnotatedRegion({self.id}, {self.target}, {len(self.nodes)} nodes)"


class AnnotatedRegionSet:
    """The regions of *expr*, by number and by node.

    Raises PartitionError where an operator takes one argument from a region and another from none, or where an end
    has no begin.
    """

    def __init__(self, expr: RelayExpr, region_begin_op: object = None, region_end_op: object = None):
        self._regions: dict[int, AnnotatedRegion] = {}
        self._of: dict[RelayExpr, AnnotatedRegion] = {}
        self._merged: dict[AnnotatedRegion, AnnotatedRegion] = {}
        self._count = 0
        self.nodes: list[RelayExpr] = list(post_order(expr, open_children))  # in the order of visiting
        self._visit_all()

    def get_region(self, expr: RelayExpr) -> AnnotatedRegion | None:
        """The region that *expr* is a node of, or None."""
        region = self._of.get(expr)
        return self._find(region) if region in self._merged else region

    def __iter__(self) -> Iterator[AnnotatedRegion]:
        return iter(self._regions.values())

    def __len__(self) -> int:
        return len(self._regions)

    def _find(self, region: AnnotatedRegion) -> AnnotatedRegion:
        top = region
        while top in self._merged:
            top = self._merged[top]
        while region is not top:
            self._merged[region], region = top, self._merged[region]
        return top

    def _visit_all(self) -> None:
        of, regions, merged = self._of, self._regions, self._merged
        for node in self.nodes:
            if type(node) is not Call:
                inner = () if isinstance(node, Function) else children(node)
                if inner:
                    self._join_arguments(node, inner)
            elif node.op is BEGIN:
                number = self._count
                self._count = number + 1
                of[node] = regions[number] = region = AnnotatedRegion(number, compiler_of(node))
                region._content.append(node)
            elif node.op is END:
                inside = of.get(node.args[0])
                if inside is None:
                    raise PartitionError(f"Cannot find the corresponding region for end annotation{_where(node)}")
                self._put(node, self._find(inside) if inside in merged else inside)
            elif node.args:
                self._join_arguments(node, node.args)

    def _put(self, node: RelayExpr, region: AnnotatedRegion) -> None:
        region.add(node)
        self._of[node] = region

    def _join_arguments(self, node: RelayExpr, args: Sequence[RelayExpr]) -> None:
        open_regions = [self.get_region(arg) for arg in args if not is_end(arg)]
        first = next((r for r in open_regions if r is not None), None)
        if first is None:
            return
        for region in open_regions:
            if region is None or region.target != first.target:
                other = "none" if region is None else f"one of {region.target}"
                raise PartitionError(
                    f"Arg regions are inconsistent: one argument is in a region of {first.target}, "
                    f"another in {other}{_where(node)}"
                )
            if region is not first and (region := self._find(region)) is not first:
                first.add(region)
                self._merged[region] = first
                del self._regions[region.id]
        self._put(node, first)


@enters_calls
def open_children(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*, but none of a composite: it is one operator."""
    if type(expr) is Call and type(expr.op) is Op:  # what nearly every node is
        return expr.args
    return () if type(expr) is Function and "Composite" in expr.attrs else children(expr)


def _where(node: RelayExpr) -> str:
    names = span_names(node.span)
    return f" (node {', '.join(names)})" if names else ""
