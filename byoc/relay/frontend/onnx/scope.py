"""Scopes of an import: the values of a graph by name, and what a graph inside another one takes from around it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, NodeProto

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TupleType, Type
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, Tuple, TupleGetItem, Var
from byoc.relay.frontend.onnx.attributes import NodeAttributes
from byoc.relay.frontend.onnx.functions import FunctionTable
from byoc.relay.frontend.onnx.subgraphs import TakenDecision


def known_fields(value: RelayExpr) -> list[RelayExpr] | None:
    """The elements of a sequence whose length is known; None for another."""
    ty = infer_expr(value)
    if isinstance(value, Tuple):
        return list(value.fields)
    return [TupleGetItem(value, k) for k in range(len(ty.fields))] if isinstance(ty, TupleType) else None


def as_sequence(value: RelayExpr) -> RelayExpr:
    """*value*, which may be a tuple, as a value of ``relay.op.sequence``; tensors stay as they are."""
    fields = known_fields(value)
    if fields is None:
        return value
    from byoc.relay.op import sequence

    made: RelayExpr = sequence.empty()
    for field in fields:
        made = sequence.insert(made, as_sequence(field))
    infer_expr(made)
    return made


class OnnxScope:
    """The values of one graph by name; what it does not know it asks of the graph around it."""

    def __init__(self, outer: OnnxScope | None = None, absent: frozenset[str] = frozenset()):
        self._values: dict[str, RelayExpr] = {}
        self._outer = outer
        self._absent = absent

    @property
    def is_inner(self) -> bool:
        """Whether the graph becomes a function of its own, or stands in one that does."""
        return self._outer is not None and self._outer.is_inner

    def is_absent(self, name: str) -> bool:
        """True for an input of a function that its caller left out."""
        return name in self._absent or (self._outer is not None and self._outer.is_absent(name))

    def leave_out(self, name: str) -> None:
        """Let *name* be an optional without an element."""
        self._absent |= {name}

    def __setitem__(self, name: str, value: RelayExpr) -> None:
        self._values[name] = value

    def state(self) -> tuple[dict[str, RelayExpr], frozenset[str]]:
        """What :meth:`restore` takes."""
        return dict(self._values), self._absent

    def restore(self, state: tuple[dict[str, RelayExpr], frozenset[str]]) -> None:
        """Let the names stand for what they stood for then."""
        self._values, self._absent = dict(state[0]), state[1]

    def find(self, name: str) -> RelayExpr | None:
        """The value *name*, or None where no node has made it."""
        if name in self._values:
            return self._values[name]
        return self._outer.find(name) if self._outer is not None else None


@dataclass(frozen=True)
class Body:
    """What is converted: nodes, in a scope, with the functions that hold there.

    *origin* is set inside a function's body: the name of the node that called it; *active* are the functions that
    are being expanded. In a branch, and in a function's body in the place of its call, a decision that is no matter of
    the body alone is one of the node around it: ``forced`` holds those that are made already, the first one first; it
    is None where all decisions have to be the body's own.
    """

    scope: OnnxScope
    table: FunctionTable
    origin: str = ""
    attrs: NodeAttributes | None = None
    defaults: Sequence[AttributeProto] = ()
    active: frozenset[tuple[str, str]] = frozenset()
    forced: list[TakenDecision] | None = None


@dataclass(frozen=True)
class NodesToConvert:
    """The *nodes* of a graph or a function from position *first* on, and the *outputs* that it gives.

    *taken* are the decisions for the first of them, *names* are those of the nodes, and *declared* gives values, by
    their names, the sizes that the model declares. *graph* is what they are of; None for a function.
    """

    nodes: Sequence[NodeProto]
    outputs: Sequence[str]
    names: Sequence[str] = ()
    declared: Callable[[str, RelayExpr], RelayExpr] | None = None
    first: int = 0
    taken: tuple[TakenDecision, ...] = ()
    graph: GraphProto | None = None

    def made(self) -> list[str]:
        """Those of the outputs that these nodes make."""
        found = {name for node in self.nodes[self.first :] for name in node.output}
        return [name for name in self.outputs if name in found]

    def needed(self) -> list[set[int]]:
        """For each node, the positions of those whose values it reads."""
        makers = {name: k for k, node in enumerate(self.nodes) for name in node.output if name}
        return [{makers[name] for name in values_read(node) if name in makers} for node in self.nodes]


def values_read(node: NodeProto) -> set[str]:
    """The names of the values that *node* reads, and the graphs in it from around them."""
    found = set(node.input)
    for attribute in node.attribute:
        graphs = [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs
        for graph in graphs:
            found |= _read_around(graph)
    return found


def _read_around(graph: GraphProto) -> set[str]:
    read = {output.name for output in graph.output}.union(*map(values_read, graph.node))
    made = (name for node in graph.node for name in node.output)
    return read.difference(made, (v.name for v in graph.input), (t.name for t in graph.initializer))


class CapturingScope(OnnxScope):
    """The scope of a graph that becomes a function of its own.

    A constant of the graphs around it is used as it is; another value of theirs becomes a parameter, once, whose type
    *typed* gives. ``captured`` has what the caller hands over, by parameter, in the order of use.
    """

    def __init__(self, outer: OnnxScope, typed: Callable[[Type], Type]):
        super().__init__(outer)
        self._around, self._typed = outer, typed
        self._params: dict[RelayExpr, Var] = {}
        self._tuples: dict[RelayExpr, Tuple] = {}

    @property
    def is_inner(self) -> bool:
        return True

    @property
    def captured(self) -> list[tuple[Var, RelayExpr]]:
        """The parameters for values from outside, each with the value."""
        return [(param, value) for value, param in self._params.items()]

    def find(self, name: str) -> RelayExpr | None:
        if name in self._values:
            return self._values[name]
        value = self._around.find(name)
        if value is None or isinstance(value, Constant):
            return value
        return self._param(name, value)

    def _param(self, name: str, value: RelayExpr) -> RelayExpr:
        """The parameter for *value*; a tuple is one parameter for each field."""
        ty = infer_expr(value)
        if isinstance(value, Constant):
            return value
        if isinstance(ty, TupleType):
            fields = known_fields(value) or ()
            return self._tuples.setdefault(value, Tuple([self._param(f"{name}_{k}", f) for k, f in enumerate(fields)]))
        if value not in self._params:
            self._params[value] = Var(name, self._typed(ty))
        return self._params[value]
