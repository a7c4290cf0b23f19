"""Which tensor passes from which call to which: the graph that a placement sees, drawn through tuples.

Requires types. A call that stands in an inner scope (a branch, a function, a let's body) reads and is read like
others; it is only not free to leave its place. What an ``if``, a ``let``, a ``match``, a reference or the call of a
closure gives comes from home; a call behind one is at a higher *level* than what it is made from, and no region may
hold calls of two levels: the path between them may lead over the host.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, TupleType, tensor_types
from byoc.partition.calls import calls_of
from byoc.partition.costs.work import boundary, constant_bytes
from byoc.partition.problem import ProblemValue
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.analysis.regions.region_graph import RegionGraph
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.traverse import post_order

Source = tuple[RelayExpr, int]  # an expression and which of its tensors, flattened


@dataclass(frozen=True)
class Dataflow:
    """The calls of a function in post-order, the tensors that pass between them, the calls of inner scopes, those that
    no result depends on (a field of a tuple that nothing projects), the level of each, and the constants that several
    calls read, which are among the tensors.
    """

    calls: tuple[Call, ...]
    values: tuple[ProblemValue, ...]
    inner: frozenset[int]
    unused: frozenset[int]
    levels: tuple[int, ...]
    shared: frozenset[Constant]
    _weights: dict[Call, int] = field(default_factory=dict, compare=False, repr=False)

    def weights(self, call: Call) -> int:
        """The bytes of the constants that *call* reads, its composite's body included, and no other call does."""
        if call not in self._weights:  # asked for at each place
            self._weights[call] = sum(constant_bytes(c) for c in constants_of(call) if c not in self.shared)
        return self._weights[call]

    def leaving(self, numbers: Collection[int]) -> frozenset[Call]:
        """Those of the calls *numbers* of which something else reads a result, too."""
        made = (v for v in self.values if v.producer is not None and v.producer in numbers)
        away = {v.producer for v in made if v.result or any(c not in numbers for c in v.consumers)}
        return frozenset(self.calls[k] for k in away if k is not None)


def dataflow(func: Function) -> Dataflow:
    """The tensors of *func*. A tensor that something other than a call reads (an ``if``, a reference) is a result."""
    calls = tuple(calls_of(func))
    number = {call: k for k, call in enumerate(calls)}
    readers: dict[Source, list[int]] = {}
    results: set[Source] = set()
    for node in post_order(func, open_children):
        if isinstance(node, Call) and node in number:
            for arg in node.args:
                for source in sources_of(arg):
                    readers.setdefault(source, []).append(number[node])
        elif not isinstance(node, (Tuple, TupleGetItem)):
            results.update(s for child in open_children(node) for s in sources_of(child))
    values = [
        ProblemValue(None, tuple(dict.fromkeys(read)), boundary("", tensor_types(source.checked_type)[k]).bytes)
        for (source, k), read in readers.items()
        if source not in number and not isinstance(source, Constant)
    ]
    for call in calls:
        for k, ty in enumerate(tensor_types(call.checked_type)):
            read = tuple(dict.fromkeys(readers.get((call, k), ())))
            result = (call, k) in results
            if read or result:
                values.append(ProblemValue(number[call], read, boundary("", ty).bytes, result))
    readers_of: dict[Constant, list[int]] = {}
    for call in calls:
        for constant in constants_of(call):
            readers_of.setdefault(constant, []).append(number[call])
    shared = {constant: tuple(read) for constant, read in readers_of.items() if len(read) > 1}
    values += (ProblemValue(None, read, constant_bytes(constant), weight=True) for constant, read in shared.items())
    inner = _inner_calls(func)
    return Dataflow(
        calls,
        tuple(values),
        frozenset(number[c] for c in calls if c in inner),
        _unused(len(calls), values),
        _levels(func, number),
        frozenset(shared),
    )


def constants_of(call: Call) -> Sequence[Constant]:
    """The constants that *call* reads, its composite's body included, each once."""
    found = [arg for arg in call.args if isinstance(arg, Constant)]
    if isinstance(call.op, Function):
        found += [node for node in post_order(call.op.body) if isinstance(node, Constant)]
    return tuple(dict.fromkeys(found))


def _levels(func: Function, number: Mapping[Call, int]) -> tuple[int, ...]:
    """For each call how many expressions that are no calls of operators, nor tuples, lead to it one after another."""
    level: dict[RelayExpr, int] = {}
    for node in post_order(func, open_children):
        inner = open_children(node)
        passes = not inner or node in number or isinstance(node, (Tuple, TupleGetItem))
        level[node] = max((level[c] for c in inner), default=0) + (not passes)
    return tuple(level[call] for call in number)


def sources_of(expr: RelayExpr) -> Sequence[Source]:
    """Where the tensors of *expr* come from, tuples and projections seen through."""
    if isinstance(expr, Tuple):
        return [source for part in expr.fields for source in sources_of(part)]
    if isinstance(expr, TupleGetItem):
        ty = expr.tuple_value.checked_type
        if isinstance(ty, TupleType):
            before = sum(len(tensor_types(f)) for f in ty.fields[: expr.index])
            width = len(tensor_types(ty.fields[expr.index]))
            return sources_of(expr.tuple_value)[before : before + width]
    made = expr._checked_type
    if not isinstance(made, (TensorType, TupleType)):  # a function, a reference: nothing that a place could hold
        return []
    return [(expr, k) for k in range(len(tensor_types(made)))]


def _inner_calls(func: Function) -> set[RelayExpr]:
    """The nodes that are evaluated apart from the function's own body."""
    graph = RegionGraph(func)
    scopes = graph.scopes()
    own = scopes[graph.unit_of[func.body]]
    return {node for node in graph.nodes if scopes[graph.unit_of[node]] != own}


def _unused(count: int, values: Sequence[ProblemValue]) -> frozenset[int]:
    """The numbers of the calls that no result depends on."""
    used: set[int] = set()
    made: dict[int, list[ProblemValue]] = {}
    for value in values:
        if value.producer is not None:
            made.setdefault(value.producer, []).append(value)
    for number in range(count - 1, -1, -1):  # what reads a call comes after it
        if any(v.result or not used.isdisjoint(v.consumers) for v in made.get(number, ())):
            used.add(number)
    return frozenset(range(count)) - used
