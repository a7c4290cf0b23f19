"""Casts written into a function of the graph language: ``cast``, ``layout_transform``, where asked ``device_copy``.

The result computes what the function did, within the precisions of the places; parameters and results are as before.
Casts of constants are done now, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from byoc.ir.attrs import as_ints
from byoc.ir.expr import RelayExpr
from byoc.partition.place import Place, Precision, dtype_of
from byoc.partition.places.cast_rules import CastRules, State
from byoc.partition.places.infer import Casting, InsertedCast, insert_casts
from byoc.partition.places.relay_graph import RelayGraph, regrouped, relay_graph
from byoc.relay import op
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import tensor_type
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.layout.forms import Wanted, as_given, order_of
from byoc.relay.transform.simplify.fold_constant import can_fold, fold_call
from byoc.runtime.core.device import DEVICE_TYPES, Device


@dataclass(frozen=True)
class PlacedFunction:
    """A function with its casts, and what was inserted. *origin* has the calls that are no casts, each with the call of
    the function before that it was made from.

    *cancelled* are the layout transforms that only undid a transpose or transform of the model, which neither is there.
    """

    function: Function
    casting: Casting
    cancelled: int = 0
    origin: Mapping[Call, Call] = field(default_factory=dict)


def insert_relay_casts(
    func: Function, places: Mapping[Call, Place], rules: CastRules | None = None, copies: bool = False
) -> PlacedFunction:
    """The typed *func*, its calls at *places*, with the fewest casts of precision and layout; *copies*: also between
    devices, as ``device_copy``.

    Raises PartitionError for what is no dataflow, a call that cannot be computed at its place, and a cast that there is
    not.
    """
    source = relay_graph(func, places)
    casting = insert_casts(source.graph, rules)
    writer = _Writer(source, casting, copies)
    body = writer.run(func.body)
    made = Function(func.params, body, func.declared_ret_type, func.type_params, func.attrs, func.span)
    infer_expr(made)
    return PlacedFunction(made, casting, writer.cancelled, writer.origin)


class _Writer:
    """Writes the calls of a graph again, each over what its casts make of its inputs."""

    def __init__(self, source: RelayGraph, casting: Casting, copies: bool):
        self._source, self._casting, self._copies = source, casting, copies
        self.cancelled = 0
        self.origin: dict[Call, Call] = {}
        self._tensors: dict[int, RelayExpr] = dict(source.sources)
        self._casts: dict[int, RelayExpr] = {}
        self._turned: dict[tuple[RelayExpr, Wanted], RelayExpr] = {}

    def run(self, body: RelayExpr) -> RelayExpr:
        """What *body* becomes."""
        for n in range(len(self._source.calls)):
            self._call(n)
        fields = [
            self._value(tensor, self._casting.results.get(k))
            for k, (tensor, _) in enumerate(self._source.graph.results)
        ]
        return regrouped(body.checked_type, fields)

    def _call(self, n: int) -> None:
        placed, operator = self._source.calls[n], self._source.graph.operators[n]
        fields = []
        for k, (_, tensor) in enumerate(operator.inputs):
            value, wanted = self._value(tensor, self._casting.reads.get((n, k))), placed.turned[k]
            fields.append(value if wanted is None else self._turn(value, wanted))
        begin, args = 0, []
        for arg in placed.call.args:
            count = len(self._source.tensors_of[arg])
            args.append(regrouped(arg.checked_type, fields[begin : begin + count]))
            begin += count
        call = Call(placed.call.op, args, placed.attrs, placed.call.type_args, placed.call.span)
        infer_expr(call)
        self.origin[call] = placed.call
        numbers = [t for _, t in operator.outputs]
        for tensor, value in zip(numbers, _fields_of(call), strict=True):
            self._tensors[tensor] = value

    def _value(self, tensor: int, cast: int | None) -> RelayExpr:
        """A tensor, or what a cast made of it; each cast is written once."""
        chain: list[int] = []
        while cast is not None and cast not in self._casts:
            chain.append(cast)
            cast = self._casting.casts[cast].reads
        value = self._tensors[tensor] if cast is None else self._casts[cast]
        for number in reversed(chain):
            step = self._casting.casts[number]
            copied = step.kind == "target"
            if not copied or (self._copies and not isinstance(value, Constant)):  # a constant is where it is read
                value = self._written(value, step)
            self._casts[number] = value
        return value

    def _written(self, value: RelayExpr, step: InsertedCast) -> RelayExpr:
        """One cast of *value*; what it would undo is taken away instead."""
        made = _now(_WRITERS[step.kind](value, step))
        undone = _undone(made) if step.kind == "layout" else None
        if undone is None:
            return made
        self.cancelled += 1
        return undone

    def _turn(self, value: RelayExpr, wanted: Wanted) -> RelayExpr:
        """*value*, its axes as given, with dimensions of 1 before it and in another order; made once."""
        key = (value, wanted)
        if key not in self._turned:
            made = value
            if wanted.added:
                made = _now(call_op("expand_dims", [made], value.span, axis=0, num_newaxis=wanted.added))
            if wanted.order != as_given(len(wanted.order)):
                made = _now(call_op("transpose", [made], value.span, axes=wanted.order))
            self._turned[key] = made
        return self._turned[key]


def _fields_of(call: Call) -> list[RelayExpr]:
    """The tensors that a call makes."""
    found: list[RelayExpr] = []
    stack: list[RelayExpr] = [call]
    while stack:
        top = stack.pop()
        fields = getattr(infer_expr(top), "fields", None)
        if fields is None:
            found.append(top)
        else:
            stack.extend(TupleGetItem(top, k, call.span) for k in reversed(range(len(fields))))
    return found


def _now(call: Call) -> RelayExpr:
    """A typed call, its value where that is known now: what a constant becomes."""
    infer_expr(call)
    if all(isinstance(arg, (Constant, Tuple)) for arg in call.args) and can_fold(call):
        folded = fold_call(call)
        infer_expr(folded)
        return folded
    return call


def _undone(call: RelayExpr) -> RelayExpr | None:
    """The value of which *call* is a permutation of a permutation that together move nothing; None where it is not."""
    outer = _axes_moved(call)
    below = call.args[0] if isinstance(call, Call) and outer is not None else None
    inner = _axes_moved(below) if below is not None else None
    if outer is None or inner is None or not isinstance(below, Call):
        return None
    if [inner[k] for k in outer] != list(range(len(outer))):
        return None
    return below.args[0]


def _axes_moved(expr: RelayExpr) -> tuple[int, ...] | None:
    """The axis of its input for each axis of a transpose or of a layout transform without blocks."""
    if not isinstance(expr, Call) or expr.attrs is None:
        return None
    if calls(expr, "transpose"):
        ndim = tensor_type(expr).ndim
        axes = expr.attrs["axes"] or range(ndim - 1, -1, -1)
        return tuple(a % ndim for a in as_ints(axes))
    if calls(expr, "layout_transform"):
        source, destination = str(expr.attrs["src_layout"]), str(expr.attrs["dst_layout"])
        if sorted(source) == sorted(destination) and source.isalpha():
            return order_of(source, destination)
    return None


def _precision(value: RelayExpr, cast: InsertedCast) -> Call:
    return call_op("cast", [value], value.span, dtype=dtype_of(Precision(cast.destination.precision)))


def _layout(value: RelayExpr, cast: InsertedCast) -> Call:
    names = {"src_layout": cast.source.layout, "dst_layout": cast.destination.layout}
    return call_op("layout_transform", [value], value.span, **names)


def _copy(value: RelayExpr, cast: InsertedCast) -> Call:
    return op.device_copy(value, _device(cast.source), _device(cast.destination))


def _device(state: State) -> Device:
    """The device of a memory; what DLPack has no number for is an extension."""
    kind = "cpu" if state.target == "host" else state.target if state.target in DEVICE_TYPES else "ext_dev"
    return Device(kind, state.device)


_WRITERS: Mapping[str, Callable[[RelayExpr, InsertedCast], Call]] = {
    "precision": _precision,
    "layout": _layout,
    "target": _copy,
}
