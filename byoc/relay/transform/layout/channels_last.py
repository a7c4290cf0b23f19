"""ChannelsLast: convolutions and what stands between them run with their channels innermost, where that pays.

Lanes are then channels, for one-by-one and depthwise convolutions alike, and a one-by-one convolution is a product of
matrices. Each value is carried in the order in which it lies; it is brought into another only where a call wants it so
(once for all such calls), by a reshape where nothing moves. ``layout_forms`` says what a call becomes,
``layout_choice`` which calls change; constants are left to FoldConstant. Inputs, results and what a region of another
compiler sees stay as they are. Requires typed functions.

It walks by a loop of its own, since a value becomes an expression for each order that somebody wants it in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.traits import ProductForm
from byoc.ir.types import Any, Dim, TensorType, TupleType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import is_plain_product
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import as_call, tensor_type
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.layout.choice import choose_channels_last, fields_of, forms_of
from byoc.relay.transform.layout.forms import Form, Order, Wanted, as_given, moves_nothing
from byoc.relay.traverse import post_order, rebuild, typed_rebuild


@dataclass(frozen=True)
class _Held:
    """What stands for a value now, the order of its axes in memory, and its shape with them as numbered."""

    value: RelayExpr
    order: Order
    shape: tuple[Dim, ...]


class _Rewriter:
    def __init__(self, forms: Mapping[Call, Form], chosen: frozenset[Call]):
        self._forms, self._chosen = forms, chosen
        self._held: dict[RelayExpr, _Held | list[_Held]] = {}
        self._converted: dict[tuple[RelayExpr, Order, Wanted], RelayExpr] = {}
        self._real: dict[RelayExpr, RelayExpr] = {}

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* with the chosen calls in their forms, and what each call wants brought to it."""
        for node in post_order(root, fusion_children):
            self._held[node] = self._visit(node)
        return self._as_given(root)

    def _visit(self, node: RelayExpr) -> _Held | list[_Held]:
        if isinstance(node, Tuple):
            return [self._single(field) for field in node.fields]
        if isinstance(node, TupleGetItem) and isinstance(held := self._held[node.tuple_value], list):
            return held[node.index]
        if isinstance(node, Call) and node in self._chosen:
            return self._formed(node, self._forms[node])
        if is_plain_product(node, ProductForm.DENSE) and self._mixes(node.args[0]):
            return self._kept(node, self._weighed(node))
        inner = fusion_children(node)
        return self._kept(node, typed_rebuild(node, [self._as_given(c) for c in inner]) if inner else node)

    def _mixes(self, node: RelayExpr) -> bool:
        return isinstance(node, Call) and node in self._chosen and self._forms[node].mixes

    def _weighed(self, dense: Call) -> RelayExpr:
        """A product with data whose channels are innermost among what was flattened: its weights in that order."""
        data, weight = dense.args
        sizes = [int(d) for d in tensor_type(as_call(data).args[0]).shape[1:]]
        rows, order = tensor_type(weight).shape[0], (0, *(k + 1 for k in range(1, len(sizes))), 1)
        split = call_op("reshape", [weight], weight.span, newshape=(int(rows), *sizes))
        turned = call_op("transpose", [split], weight.span, axes=order)
        flat = call_op("reshape", [turned], weight.span, newshape=(int(rows), -1))
        args = [self._as_given(data), flat, *(self._as_given(arg) for arg in dense.args[2:])]
        return Call(dense.op, args, dense.attrs, dense.type_args, dense.span)

    def _kept(self, node: RelayExpr, value: RelayExpr) -> _Held:
        ty = node.checked_type_
        shape = ty.shape if isinstance(ty, TensorType) else ()
        return _Held(value, as_given(len(shape)), shape)

    def _single(self, node: RelayExpr) -> _Held:
        """The value of *node*, a tuple as one value as it was."""
        held = self._held[node]
        return self._kept(node, self._as_given(node)) if isinstance(held, list) else held

    def _as_given(self, node: RelayExpr) -> RelayExpr:
        """What *node* became, its axes in memory as they are numbered."""
        if node not in self._real:
            held = self._held[node]
            if isinstance(held, list):
                fields = [self._given_field(h) for h in held]
                self._real[node] = rebuild(node, fields) if isinstance(node, Tuple) else Tuple(fields, node.span)
            else:
                self._real[node] = self._given_field(held)
        return self._real[node]

    def _given_field(self, held: _Held) -> RelayExpr:
        return self._brought(held, Wanted(0, as_given(len(held.order))))

    def _brought(self, held: _Held, wanted: Wanted) -> RelayExpr:
        """*held* as a call wants it."""
        key = held.value, held.order, wanted  # one value may stand for two, each with its own order
        if key not in self._converted:
            self._converted[key] = converted = _converted(held, wanted)
            infer_expr(converted)
        return self._converted[key]

    def _formed(self, call: Call, form: Form) -> _Held | list[_Held]:
        wanted = iter(form.inputs)
        args: list[RelayExpr] = []
        for arg in call.args:
            fields = [self._brought(self._single(f), next(wanted)) for f in fields_of(arg)]
            args.append(Tuple(fields, arg.span) if isinstance(arg, Tuple) else fields[0])
        made = args[0] if form.is_nothing else Call(call.op, args, form.attrs, call.type_args, call.span)
        infer_expr(made)
        types = tensor_types(call.checked_type)
        if not isinstance(call.checked_type, TupleType):
            return _Held(made, form.outputs[0], types[0].shape)
        results = enumerate(zip(form.outputs, types, strict=True))
        return [_Held(TupleGetItem(made, k, call.span), order, ty.shape) for k, (order, ty) in results]


def _converted(held: _Held, wanted: Wanted) -> RelayExpr:
    """The value of *held* with dimensions of 1 put before it, in the order *wanted*."""
    value, order, shape, span = held.value, held.order, held.shape, held.value.span
    if wanted.added:
        value = _converted(held, Wanted(0, as_given(len(shape))))
        value = call_op("expand_dims", [value], span, axis=0, num_newaxis=wanted.added)
        shape, order = (*[1] * wanted.added, *shape), as_given(wanted.added + len(shape))
    if order == wanted.order:
        return value
    if moves_nothing(shape, order, wanted.order) and not any(isinstance(d, Any) for d in shape):
        return call_op("reshape", [value], span, newshape=tuple(int(shape[k]) for k in wanted.order))
    return call_op("transpose", [value], span, axes=tuple(order.index(k) for k in wanted.order))


def convert_calls(func: Function, forms: Mapping[Call, Form], chosen: frozenset[Call]) -> Function:
    """The typed *func* with the calls *chosen* in their *forms*, and conversions where orders differ."""
    body = _Rewriter(forms, chosen).run(func.body)
    return func.over(func.params, body)


def channels_last_function(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with the channels of its calls innermost where that pays; itself where it pays nowhere."""
    func = infer_function(func, mod)
    forms = forms_of(func.body)
    chosen = choose_channels_last(func.body, forms)
    return convert_calls(func, forms, chosen) if chosen else func


def ChannelsLast() -> FunctionPass:
    """The pass that runs convolutions and what stands between them with their channels innermost."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return channels_last_function(func, mod)

    return FunctionPass(
        run,
        PassInfo(
            "ChannelsLast",
            0,
            ("InferType",),
            needs=("unfused",),
            ends=REWRITES,
            law=Law(
                "an operator between two layout transforms computes the same in the other layout", Numbers.ROUNDING
            ),
        ),
    )
