"""A function of the graph language as a graph of tensors and kernels: what casts of it are about.

Each call at a place becomes an operator with a kernel of its own, whose types say what the call takes and gives there:
floats in the place's precision, other numbers as they are; at layout NHWC the order of axes that the call's
channels-last form wants (``relay/transform/layout_forms``), where it has one. Whether the operator can be computed so
is asked of its type relation. Layouts that are ``any`` are chosen here, by a minimum cut over the fewest transforms.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.contract.verdict import callee_name
from byoc.errors import PartitionError, TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.partition.calls import is_composite
from byoc.partition.place import FLOATS, HOST, DataLayout, Place, Precision, dtype_of, precision_of
from byoc.partition.places.graph import Operator, PlacedTensor, PlaceGraph
from byoc.partition.places.kernel import Kernel
from byoc.partition.places.tensor_type import LAYOUT_RANK, TensorTy
from byoc.relay.analysis.regions.annotated_regions import open_children
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import tuple_type
from byoc.relay.transform.cut.minimum_cut import SINK, SOURCE, UNBOUNDED, Network
from byoc.relay.transform.layout.forms import Form, Wanted, as_given, channels_last, channels_last_form
from byoc.relay.traverse import post_order

_LAYOUTS = {as_given(LAYOUT_RANK): DataLayout.NCHW, channels_last(LAYOUT_RANK): DataLayout.NHWC}


@dataclass(frozen=True, eq=False)
class PlacedCall:
    """A call as it is computed at its place: its attributes then, and for each input (tuples flattened) how it is
    turned after casts: None where casts do all.
    """

    call: Call
    attrs: Attrs | None
    turned: tuple[Wanted | None, ...]


@dataclass(eq=False)
class RelayGraph:
    """A function's *graph*, with a :class:`PlacedCall` for each operator, and the tensors of each expression."""

    graph: PlaceGraph
    calls: tuple[PlacedCall, ...]
    tensors_of: Mapping[RelayExpr, tuple[int, ...]]
    sources: Mapping[int, RelayExpr] = field(default_factory=dict)


def relay_graph(func: Function, places: Mapping[Call, Place]) -> RelayGraph:
    """The typed *func* with its calls at *places*; a call without one is at the host, as the model has it.

    Raises PartitionError for what is no dataflow, and for a call that cannot be computed at its place.
    """
    builder = _Builder(places)
    for node in post_order(func.body, open_children):
        builder.visit(node)
    builder.choose_layouts(func.body)
    results = tuple(
        (t, TensorTy(HOST, builder.tensors[t].precision, DataLayout.NCHW)) for t in builder.tensors_of[func.body]
    )
    placed = [builder.placed(call) for call in builder.calls]
    graph = PlaceGraph(tuple(builder.tensors), tuple(o for o, _ in placed), {}, results)
    return RelayGraph(graph, tuple(p for _, p in placed), builder.tensors_of, builder.sources)


class _Builder:
    """Tensors for expressions, and operators for calls."""

    def __init__(self, places: Mapping[Call, Place]):
        self.places = places
        self.tensors: list[PlacedTensor] = []
        self.tensors_of: dict[RelayExpr, tuple[int, ...]] = {}
        self.sources: dict[int, RelayExpr] = {}
        self.calls: list[Call] = []
        self.forms: dict[Call, Form] = {}

    def visit(self, node: RelayExpr) -> None:
        """Give *node* its tensors. Raises PartitionError for an expression that is no dataflow."""
        if isinstance(node, Tuple):
            self.tensors_of[node] = tuple(t for f in node.fields for t in self.tensors_of[f])
        elif isinstance(node, TupleGetItem):
            sizes = [len(tensor_types(f)) for f in tuple_type(node.tuple_value).fields]
            begin = sum(sizes[: node.index])
            inner = self.tensors_of[node.tuple_value]
            self.tensors_of[node] = inner[begin : begin + sizes[node.index]]
        elif isinstance(node, (Var, Constant)):
            self.tensors_of[node] = self._new(node, getattr(node, "name_hint", "constant"))
        elif isinstance(node, Call) and (isinstance(node.op, Op) or is_composite(node)):
            self.tensors_of[node] = self._new(node, ", ".join(span_names(node.span)) or callee_name(node))
            self.calls.append(node)
            form = self._form(node)
            if form is not None:
                self.forms[node] = form
        elif not isinstance(node, (Op, Function)):
            raise PartitionError(
                f"casts are inserted into dataflow, and this function has a {type(node).__name__}; keep it on the host"
            )

    def _new(self, node: RelayExpr, name: str) -> tuple[int, ...]:
        begin = len(self.tensors)
        for ty in tensor_types(node.checked_type):
            shape = tuple(d if isinstance(d, int) else repr(d) for d in ty.shape)
            self.tensors.append(PlacedTensor(name, precision_of(ty.dtype), shape, isinstance(node, Constant)))
            if not isinstance(node, Call):
                self.sources[len(self.tensors) - 1] = node
        return tuple(range(begin, len(self.tensors)))

    def _form(self, call: Call) -> Form | None:
        """The channels-last form of a call over four axes, where it may be used."""
        place = self.places.get(call)
        if place is None or place.layout not in (DataLayout.NHWC, DataLayout.ANY):
            return None
        form = channels_last_form(call)
        if form is None or form.is_nothing or form.mixes:
            return None
        if any(order not in _LAYOUTS and order != as_given(len(order)) for order in form.outputs):
            return None  # a result of another rank, which casts of layout do not bring back
        ranks = [len(w.order) for w in form.inputs] + [len(o) for o in form.outputs]
        return form if max(ranks) == LAYOUT_RANK else None

    def choose_layouts(self, root: RelayExpr) -> None:
        """Drop the forms of those calls whose layout is ``any`` and that have fewer transforms as they are given."""
        free = [c for c in self.forms if self.places[c].layout == DataLayout.ANY]
        if not free:
            return
        network = Network()
        label = {c: network.add_node() for c in free}
        label.update((c, SINK) for c in self.forms if c not in label)
        makers, users = self._layout_uses(root, label)
        for tensor, nodes in users.items():
            _add_value(network, makers.get(tensor, SOURCE), nodes, (1 << 40) + self.tensors[tensor].elements)
        last = network.sink_side()
        for call in free:
            if label[call] not in last:
                del self.forms[call]

    def _layout_uses(
        self, root: RelayExpr, label: Mapping[Call, int]
    ) -> tuple[dict[int, int], dict[int, dict[int, None]]]:
        """The node that makes each tensor with channels last, and the nodes that use each tensor that may lie so."""
        makers: dict[int, int] = {}
        users: dict[int, dict[int, None]] = {}

        def use(tensor: int, node: int) -> None:
            if self.tensors[tensor].rank == LAYOUT_RANK and not self.tensors[tensor].constant:
                users.setdefault(tensor, {})[node] = None

        for call in self.calls:
            form, inputs = self.forms.get(call), self._inputs(call)
            for n, tensor in enumerate(inputs):
                last = form is not None and _layout_of(form.inputs[n]) == DataLayout.NHWC
                use(tensor, label[call] if last else SOURCE)
            for n, tensor in enumerate(self.tensors_of[call]):
                if form is not None and _LAYOUTS.get(form.outputs[n]) == DataLayout.NHWC:
                    makers[tensor] = label[call]
        for tensor in self.tensors_of[root]:
            use(tensor, SOURCE)
        return makers, users

    def _inputs(self, call: Call) -> tuple[int, ...]:
        return tuple(t for arg in call.args for t in self.tensors_of[arg])

    def placed(self, call: Call) -> tuple[Operator, PlacedCall]:
        """The operator of *call* with a kernel at its place, and how it is computed there."""
        place = self.places.get(call, Place(HOST, Precision.ANY, DataLayout.ANY))
        form, inputs, name = self.forms.get(call), self._inputs(call), ", ".join(span_names(call.span))
        if place.precision not in (*FLOATS, Precision.ANY) or place.layout not in (*_LAYOUTS.values(), DataLayout.ANY):
            raise PartitionError(
                f"{callee_name(call)} ({name}) is at {place}; in the graph language casts are of floats, of layouts "
                "NCHW and NHWC: quantize the model first, or leave such layouts to the backend"
            )
        opaque = not isinstance(call.op, Op)
        taken = [self._taken(t, place, opaque, form.inputs[n] if form else None) for n, t in enumerate(inputs)]
        attrs = call.attrs if opaque else _computing_in(form.attrs if form else call.attrs, place)
        turned = tuple(
            w if w is not None and _layout_of(w) is None else None
            for w in (form.inputs if form else [None] * len(inputs))
        )
        types = (
            [ty.dtype for ty in tensor_types(call.checked_type)]
            if opaque
            else self._computed(call, attrs, inputs, taken, form, place)
        )
        given = [
            TensorTy(
                place.target,
                precision_of(dtype),
                _LAYOUTS.get(form.outputs[n], "NCHW") if form else "NCHW",
                place.device,
            )
            for n, dtype in enumerate(types)
        ]
        kernel = Kernel(
            callee_name(call),
            place,
            "def",
            {f"in{n}": ty for n, ty in enumerate(taken)},
            {f"out{n}": ty for n, ty in enumerate(given)},
        )
        operator = Operator(
            callee_name(call),
            tuple((f"in{n}", t) for n, t in enumerate(inputs)),
            tuple((f"out{n}", t) for n, t in enumerate(self.tensors_of[call])),
            name,
            kernel=kernel,
            place=place,
        )
        return operator, PlacedCall(call, attrs, turned)

    def _taken(self, tensor: int, place: Place, opaque: bool, wanted: Wanted | None) -> TensorTy:
        precision = self.tensors[tensor].precision
        if place.precision in FLOATS and precision in FLOATS and not opaque:
            precision = place.precision
        layout = (_layout_of(wanted) if wanted is not None else None) or DataLayout.NCHW
        return TensorTy(place.target, precision, layout, place.device)

    def _computed(
        self,
        call: Call,
        attrs: Attrs | None,
        inputs: Sequence[int],
        taken: Sequence[TensorTy],
        form: Form | None,
        place: Place,
    ) -> list[str]:
        """The dtypes of the results when *call* is computed at *place*. Raises PartitionError where it cannot be."""
        fields = iter(
            [
                Var(f"x{n}", _turned_type(self._type_of(call, n), form.inputs[n] if form else None, ty))
                for n, ty in enumerate(taken)
            ]
        )
        args = [_regrouped(arg.checked_type, fields) for arg in call.args]
        trial = Call(call.op, args, attrs, call.type_args, call.span)
        try:
            found = tensor_types(infer_expr(trial))
        except TypeInferenceError as error:
            names = ", ".join(span_names(call.span))
            raise PartitionError(
                f"{callee_name(call)} ({names}) cannot be computed at {place}: {error}; give it another place"
            ) from error
        return [ty.dtype for ty in found]

    @staticmethod
    def _type_of(call: Call, n: int) -> TensorType:
        return [ty for arg in call.args for ty in tensor_types(arg.checked_type)][n]


def _add_value(network: Network, maker: int, users: Mapping[int, None], cost: int) -> None:
    """A tensor that is transformed once for all users under the other label than its maker's."""
    if maker != SOURCE:
        given = network.add_node()
        network.add_edge(given, maker, cost)
        for user in users:
            network.add_edge(user, given, UNBOUNDED)
    last = network.add_node()
    network.add_edge(maker, last, cost)
    for user in users:
        if user != SOURCE:
            network.add_edge(last, user, UNBOUNDED)


def _layout_of(wanted: Wanted) -> DataLayout | None:
    """The layout that *wanted* is, as it is given for other ranks; None where a cast of layout cannot give it."""
    if wanted.added:
        return None
    if wanted.order == as_given(len(wanted.order)):
        return DataLayout.NCHW
    return _LAYOUTS.get(wanted.order)


def _turned_type(ty: TensorType, wanted: Wanted | None, as_taken: TensorTy) -> TensorType:
    """The type of an input as the call sees it: in its precision, in the order that is wanted."""
    shape = list(ty.shape)
    if wanted is not None:
        whole = [1] * wanted.added + shape
        shape = [whole[k] for k in wanted.order]
    return TensorType(shape, dtype_of(as_taken.precision))


def _regrouped(ty: Type, fields: Iterator[RelayExpr]) -> RelayExpr:
    """The next of *fields* as a value of type *ty*: itself, or a tuple."""
    if isinstance(ty, TupleType):
        return Tuple([_regrouped(f, fields) for f in ty.fields])
    return next(fields)


def regrouped(ty: Type, fields: Sequence[RelayExpr]) -> RelayExpr:
    """*fields* as one value of type *ty*: the only one, or a tuple of them."""
    return _regrouped(ty, iter(fields))


def _computing_in(attrs: Attrs | None, place: Place) -> Attrs | None:
    """*attrs* with the float in which the operator sums, or which it makes, as the place's."""
    if attrs is None or place.precision not in FLOATS:
        return attrs
    dtype = dtype_of(place.precision)
    floats = {dtype_of(p) for p in FLOATS}
    changes = {name: dtype for name in ("out_dtype", "dtype") if getattr(attrs, name, None) in floats - {dtype}}
    return dataclasses.replace(attrs, **changes) if changes else attrs
