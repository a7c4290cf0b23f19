"""Sub-graphs: nodes of a dataflow graph that may become a function, and when they may.

A sub-graph knows its boundary: *entry* nodes use something outside, *exit* nodes are used outside, *inputs* are what
is used, *outputs* what uses. Nested sub-graphs are parts of it that are functions of their own, with attributes
(``Composite``, ``Primitive`` and ``Compiler``). Source: Collage's ``SubGraph`` and ``NestedSubGraph``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from byoc.annex.collage.dataflow_graph import DataflowGraph, neighbours
from byoc.annex.collage.index_set import IndexSet, first_inside, indexes_of, last_inside
from byoc.annex.collage.sub_expr_kind import sub_graph_kind_and_label, union_labels
from byoc.ir.op import OpPattern

COMPILER = "Compiler"
COMPOSITE = "Composite"
PRIMITIVE = "Primitive"


@dataclass(frozen=True)
class SubGraphConfig:
    """What a valid sub-graph is allowed: exits and depth up to a number (0: any); exits that are also used inside."""

    max_exits: int = 0
    allow_taps: bool = False
    max_depth: int = 0


@dataclass(frozen=True)
class NestedSubGraph:
    """A part of a sub-graph that becomes a function with the attributes *attrs*."""

    sub_graph: SubGraph
    attrs: tuple[tuple[str, object], ...]

    def disjoint_union(self, that: NestedSubGraph) -> NestedSubGraph:
        """One function of both parts, which have the same attributes."""
        return NestedSubGraph(self.sub_graph.disjoint_union(that.sub_graph), self.attrs)

    @property
    def is_region(self) -> bool:
        """True where the function is a compiler's, and not a composite within one."""
        return any(name == COMPILER for name, _ in self.attrs)


class SubGraph:
    """The nodes *inside* (not empty) of *graph*, with kind, label and nested sub-graphs."""

    def __init__(
        self,
        graph: DataflowGraph,
        inside: IndexSet,
        nested: Sequence[NestedSubGraph] = (),
        kind: OpPattern | None = None,
        label: str = "",
    ):
        self.graph = graph
        self.inside = inside
        self.nested = tuple(nested)
        if kind is None:
            kind, label = sub_graph_kind_and_label(graph.nodes[i] for i in indexes_of(inside))
        self.kind, self.label = kind, label
        self.first_inside_index = first_inside(inside)
        self.last_inside_index = last_inside(inside)

    @cached_property
    def entries(self) -> IndexSet:
        """The nodes inside that use something outside."""
        inputs = self.graph.inputs
        return sum(1 << i for i in indexes_of(self.inside) if inputs[i] & ~self.inside)

    @cached_property
    def exits(self) -> IndexSet:
        """The nodes inside that are used outside, or whose value is the result of the whole."""
        graph = self.graph
        return sum(1 << i for i in indexes_of(self.inside) if graph.outputs[i] & ~self.inside or i == graph.external)

    @cached_property
    def inputs(self) -> IndexSet:
        """The nodes outside that are used inside."""
        return neighbours(self.graph.inputs, self.inside) & ~self.inside

    @cached_property
    def outputs(self) -> IndexSet:
        """The nodes outside that use something inside."""
        return neighbours(self.graph.outputs, self.inside) & ~self.inside

    @cached_property
    def depth(self) -> int:
        """The number of nodes on the longest path from an entry to an exit."""
        depths: dict[int, int] = {}
        deepest = 0
        for i in indexes_of(self.inside):
            sources = indexes_of(self.graph.inputs[i] & self.inside)
            before = max((depths.get(source, 0) for source in sources), default=0)
            if before or self.entries >> i & 1:
                depths[i] = before + 1
                if self.exits >> i & 1:
                    deepest = max(deepest, before + 1)
        return deepest

    def is_valid(self, config: SubGraphConfig) -> bool:
        """True when this may be a function under *config*, without ever waiting for what waits for it."""
        graph = self.graph
        if config.max_exits and self.exits.bit_count() > config.max_exits:
            return False
        if config.max_depth and self.depth > config.max_depth:
            return False
        if len({graph.blocks[i] for i in indexes_of(self.inside)}) > 1:
            return False
        if any(nested.sub_graph.inside & ~self.inside for nested in self.nested):
            return False
        if not config.allow_taps and any(graph.outputs[i] & self.inside for i in indexes_of(self.exits)):
            return False
        return not any(graph.downstream[i] & self.entries for i in indexes_of(self.outputs))

    def is_touching(self, that: SubGraph) -> bool:
        """True when the two are disjoint and *that* uses something of this."""
        return not self.inside & that.inside and bool(self.outputs & that.inside)

    def disjoint_union(self, that: SubGraph) -> SubGraph:
        """Both together; it may be not valid. Functions of one compiler become one."""
        nested = list(self.nested)
        for part in that.nested:
            same = next((k for k, n in enumerate(nested) if n.is_region and n.attrs == part.attrs), None)
            if same is None:
                nested.append(part)
            else:
                nested[same] = nested[same].disjoint_union(part)
        kind, label = max(self.kind, that.kind), union_labels(self.label, that.label)
        return SubGraph(self.graph, self.inside | that.inside, nested, kind, label)

    def with_attrs(self, attrs: Mapping[str, object]) -> SubGraph:
        """The same nodes, all of them within one function with the attributes *attrs*."""
        return SubGraph(self.graph, self.inside, (NestedSubGraph(self, tuple(attrs.items())),), self.kind, self.label)

    def __repr__(self) -> str:
        return f"SubGraph({self.label}: {list(indexes_of(self.inside))})"
