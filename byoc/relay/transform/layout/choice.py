"""Which calls of a graph get their channels innermost: the cheapest choice, by a minimum cut.

Each call with a form of ``layout_forms`` has two labels, *as given* (the source's side) and *channels last* (the
sink's). A value that is made under one label and used under the other is converted once, which costs its bytes read
and written; an operator that slides windows costs its operations, slower where the innermost axis of its result does
not fill vectors. The sum of both is least over all choices; of equal ones conversions stand late, so that what follows
an operator can be fused with it, and else fewest calls change. Source: graph cuts for labelling (Boykov, Veksler,
Zabih, "Fast approximate energy minimization via graph cuts", 2001), with two labels, where the answer is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.traits import ProductForm
from byoc.ir.types import Any, Dim, TensorType, dtype_bytes, tensor_types
from byoc.relay.analysis.operator_calls import is_plain_product, once_per_kind
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.narrowing import operator_of, tensor_type
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.cut.minimum_cut import SINK, SOURCE, UNBOUNDED, Network
from byoc.relay.transform.layout.convert_layout_rules import CONVERT_RULES
from byoc.relay.transform.layout.forms import (
    Form,
    as_given,
    channels_last,
    channels_last_form,
    flattened_form,
    moves_nothing,
)
from byoc.relay.traverse import post_order

# picoseconds: a byte that is read and written by a conversion, an operation at the full rate of one core
BYTE_MOVED, OPERATION = 200, 10
# lanes of a vector; of them, windows along the innermost axis fill only a part: neighbours overlap and borders differ
LANES, ALONG_WINDOWS = 16, 0.5
UNKNOWN_SIZE = 64
Value = tuple[RelayExpr, int]


def _size(dim: Dim) -> int:
    return UNKNOWN_SIZE if isinstance(dim, Any) else int(dim)


def conversion_cost(ty: TensorType) -> int:
    """What it costs to bring a value into another order."""
    return math.prod(map(_size, ty.shape)) * dtype_bytes(ty.dtype) * BYTE_MOVED


def _filled(size: int) -> float:
    """The part of the lanes that rows of *size* elements use."""
    return size / (-(-size // LANES) * LANES)


def window_costs(call: Call) -> tuple[int, int]:
    """What the operations of a call cost as given and with the channels innermost; 0 where windows play no part."""
    op = operator_of(call)
    if op.name not in CONVERT_RULES:
        return 0, 0
    shape = tensor_types(call.checked_type)[0].shape
    operations = op.cost(call.attrs, [arg.checked_type for arg in call.args], call.checked_type).operations
    operations *= UNKNOWN_SIZE ** sum(isinstance(d, Any) for d in shape)  # which count as 1 there
    along = _filled(_size(shape[-1])) * ALONG_WINDOWS
    return int(operations * OPERATION / along), int(operations * OPERATION / _filled(_size(shape[1])))


def fields_of(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The values of an argument, where a tuple is written out."""
    return expr.fields if isinstance(expr, Tuple) else (expr,)


def source_of(expr: RelayExpr) -> Value:
    """Where a value is made: the call and the number of its result; any other expression itself."""
    number = 0
    while isinstance(expr, TupleGetItem):
        inner = expr.tuple_value
        if isinstance(inner, Tuple):
            expr, number = inner.fields[expr.index], 0
        elif isinstance(inner, Call) and isinstance(inner.op, Op):
            return inner, expr.index
        else:
            break
    return expr, number


def forms_of(root: RelayExpr) -> dict[Call, Form]:
    """The form of each call under *root* that has one, in post-order; nothing where no windows slide."""
    forms: dict[Call, Form] = {}
    nodes = list(post_order(root, fusion_children))
    if not any(isinstance(n, Call) and isinstance(n.op, Op) and n.op.name in CONVERT_RULES for n in nodes):
        return forms
    mixable = _only_weighed(nodes)
    form_of = {follows: once_per_kind(partial(channels_last_form, from_last=not follows)) for follows in (False, True)}
    for node in nodes:
        if isinstance(node, Call):
            follows = any([source_of(v)[0] in forms for a in node.args for v in fields_of(a)])
            form = flattened_form(node) if node in mixable else None
            form = form or form_of[follows](node)
            if form is not None:
                forms[node] = form
    return forms


def _only_weighed(nodes: Sequence[RelayExpr]) -> frozenset[RelayExpr]:
    """The values that only products with constant weights read, so that the order of their elements is free."""
    weighed: set[RelayExpr] = set()
    otherwise = {nodes[-1]}
    for node in nodes:
        for child in fusion_children(node):
            (weighed if _weighs(node, child) else otherwise).add(child)
    return frozenset(weighed - otherwise)


def _weighs(node: RelayExpr, data: RelayExpr) -> bool:
    """Whether *node* is a product of *data* with constant weights, by rows."""
    if not is_plain_product(node, ProductForm.DENSE):
        return False
    return data is node.args[0] and isinstance(node.args[1], Constant)


class _Values:
    """The network's nodes for the two conversions of one value: to the order as given, and from it."""

    def __init__(self, network: Network, costs: int, label: int):
        self._network, self._costs, self._label = network, costs, label
        self._given: int | None = None
        self._last: int | None = None

    def use(self, label: int, user: int) -> None:
        """The value made under *label* is used under the label of *user*; the source stands for *as given*."""
        if label != SOURCE:
            if self._given is None:
                self._given = self._network.add_node()
                self._network.add_edge(self._given, label, self._costs)
            self._network.add_edge(user, self._given, UNBOUNDED)
        if user != SOURCE:
            if self._last is None:
                self._last = self._network.add_node()
                self._network.add_edge(label, self._last, self._costs)
            self._network.add_edge(self._last, user, UNBOUNDED)

    def convert_for(self, user: int) -> None:
        """A user that wants yet another order under its second label pays for that itself."""
        self._network.add_edge(SOURCE, user, self._costs)
        self.use(self._label, SOURCE)


class _Choice:
    def __init__(self, root: RelayExpr, forms: Mapping[Call, Form]):
        self._root, self._forms, self._network = root, forms, Network()
        self._labels = {call: self._network.add_node() for call in forms}
        self._values: dict[Value, _Values] = {}

    def run(self) -> frozenset[Call]:
        for node in post_order(self._root, fusion_children):
            if isinstance(node, Call) and node in self._forms:
                self._add_call(node, self._forms[node])
            elif not isinstance(node, (Tuple, TupleGetItem)):
                for child in fusion_children(node):
                    for field in fields_of(child):
                        self._use(field, SOURCE)
        for field in fields_of(self._root):
            self._use(field, SOURCE)
        chosen = self._network.sink_side()
        return frozenset(call for call, label in self._labels.items() if label in chosen)

    def _add_call(self, call: Call, form: Form) -> None:
        label = self._labels[call]
        as_it_is, last = window_costs(call)
        if form.is_nothing:
            as_it_is += conversion_cost(tensor_type(call))
        if as_it_is > last:
            self._network.add_edge(label, SINK, as_it_is - last)
        elif last > as_it_is:
            self._network.add_edge(SOURCE, label, last - as_it_is)
        fields = [field for arg in call.args for field in fields_of(arg)]
        if source_of(fields[0])[0] in self._forms:  # of equal choices the one that converts late, behind what is fused
            self._network.add_edge(label, SINK, 1)
        for field, wanted in zip(fields, form.inputs, strict=True):
            ndim = len(wanted.order) - wanted.added
            if wanted.order == as_given(len(wanted.order)):
                self._use(field, SOURCE)
            elif not wanted.added and wanted.order == channels_last(ndim):
                self._use(field, label)
            else:
                self._use(field, label, is_other=True)

    def _use(self, expr: RelayExpr, user: int, is_other: bool = False) -> None:
        value, ty = source_of(expr), expr.checked_type
        if isinstance(value[0], Constant) or not isinstance(ty, TensorType):
            return  # constants are converted when compiling
        if moves_nothing(ty.shape, as_given(ty.ndim), channels_last(ty.ndim)):
            return
        label, (maker, number) = SOURCE, value
        if isinstance(maker, Call) and maker in self._forms:
            if self._forms[maker].outputs[number] == channels_last(ty.ndim):
                label = self._labels[maker]
        kept = self._values.get(value)
        if kept is None:
            kept = self._values[value] = _Values(self._network, conversion_cost(ty), label)
        if is_other:
            kept.convert_for(user)
        else:
            kept.use(label, user)


def choose_channels_last(root: RelayExpr, forms: Mapping[Call, Form]) -> frozenset[Call]:
    """The calls of *forms* that are cheaper with their channels innermost, all conversions considered."""
    return _Choice(root, forms).run() if forms else frozenset()
