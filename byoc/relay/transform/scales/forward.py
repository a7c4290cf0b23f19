"""Scales that go forward into the weights after them.

First all readers of a value state whether they take it unscaled (:class:`Message`), from results to inputs;
then each product that may be left out is carried as a value and its scale, up to the weights that take it. It walks by
a loop of its own, since a value becomes such a pair. Source: ``ForwardPrep`` and the forward rewrites of
``src/relay/transforms/fold_scale_axis.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.errors import InternalError
from byoc.ir.expr import RelayExpr
from byoc.ir.span import AnySpan, merge_spans
from byoc.ir.traits import ProductForm
from byoc.relay.analysis.operator_calls import is_plain_product
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.scales.axes import (
    Axes,
    ConvAxes,
    Message,
    RulesOfScaling,
    along_axes,
    as_scale,
    axes_of_convolution,
    is_all_positive,
    is_known,
    tensor,
)
from byoc.relay.traverse import post_order, rebuild

Prepare = Callable[[Call, "Message | None"], "list[Message | None]"]


def _activation(call: Call, out: Message | None) -> list[Message | None]:
    return [None if out is None else Message(out.axes, True)]


def _sum(call: Call, out: Message | None) -> list[Message | None]:
    """To the term that has the shape of the sum, where the other is one number per channel."""
    shape = tensor(call).shape
    for k in range(2):
        whole, other = tensor(call.args[k]), call.args[1 - k]
        if out is None or whole.shape != shape or not is_known(shape, out.axes):
            continue
        if as_scale(whole, other, out.axes) is not None:
            return [out, None] if k == 0 else [None, out]
    return [None, None]


def _convolution(call: Call, out: Message | None) -> list[Message | None]:
    axes = ConvAxes.of(call)
    if axes is None or not is_known(tensor(call.args[1]).shape, axes.input_weight):
        return [None, None]
    return [Message(axes.data), None]


def _dense(call: Call, out: Message | None) -> list[Message | None]:
    return [Message((tensor(call.args[0]).ndim - 1,)), None]


PREPARE: RulesOfScaling[Prepare] = RulesOfScaling(
    activation=_activation, sum=_sum, convolution=_convolution, dense=_dense
)


def _both(a: Message | None, b: Message | None) -> Message | None:
    """What two readers take alike."""
    if a is None or b is None or a.axes != b.axes:
        return None
    return Message(a.axes, a.require_positive or b.require_positive)


def _messages(order: Sequence[RelayExpr]) -> dict[RelayExpr, Message | None]:
    """What the readers of every value take together; a result is taken as it is."""
    messages: dict[RelayExpr, Message | None] = {}
    for node in reversed(order):
        prepare = PREPARE.of(node)
        inner = fusion_children(node)
        wanted = prepare(as_call(node), messages.get(node)) if prepare is not None else [None] * len(inner)
        for child, message in zip(inner, wanted, strict=True):
            messages[child] = _both(messages[child], message) if child in messages else message
    return messages


@dataclass(frozen=True, eq=False)
class _Scaled:
    """A value that is still to be multiplied by *scale* along *axes*."""

    value: RelayExpr
    scale: RelayExpr
    axes: Axes
    span: AnySpan | None


_State = RelayExpr | _Scaled


def _unscaled(state: _State) -> RelayExpr:
    """*state*, which its readers take as it is. Raises InternalError for one that still waits for its scale."""
    if isinstance(state, _Scaled):
        raise InternalError("a value whose scale was taken out is read by a call that does not take the scale")
    return state


def _product(call: Call, args: Sequence[_State], message: Message | None) -> _State | None:
    """A product whose readers take its other factor unscaled."""
    values = [arg for arg in args if not isinstance(arg, _Scaled)]
    if message is None or len(values) != len(args):
        return None
    for k in range(2):
        whole = tensor(call.args[k])
        scale = as_scale(whole, call.args[1 - k], message.axes) if whole == tensor(call) else None
        if scale is None or (message.require_positive and not is_all_positive(scale)):
            continue
        now = values[1 - k]  # the same scale, as it is now
        if scale is not call.args[1 - k]:
            now = Call(as_call(scale).op, [now], as_call(scale).attrs, span=scale.span)
        return _Scaled(values[k], now, message.axes, call.span)
    return None


def _through_activation(call: Call, args: Sequence[_State], message: Message | None) -> _State | None:
    data = args[0]
    if not isinstance(data, _Scaled):
        return None
    new = Call(call.op, [data.value], call.attrs, call.type_args, call.span)
    return _Scaled(new, data.scale, data.axes, data.span)


def _through_sum(call: Call, args: Sequence[_State], message: Message | None) -> _State | None:
    for k in range(2):
        data, other = args[k], args[1 - k]
        if isinstance(data, _Scaled) and not isinstance(other, _Scaled):
            divisor = along_axes(data.scale, tensor(call).shape, data.axes)
            rest = call_op("divide", [other, divisor], merge_spans([other.span, data.span]))
            terms = [data.value, rest] if k == 0 else [rest, data.value]
            new = Call(call.op, terms, call.attrs, call.type_args, call.span)
            return _Scaled(new, data.scale, data.axes, data.span)
    return None


def _into_weight(call: Call, args: Sequence[_State], message: Message | None) -> _State | None:
    data, weight = args[:2]
    if not isinstance(data, _Scaled) or isinstance(weight, _Scaled):
        return None
    shape = tensor(call.args[1]).shape
    axes = (1,) if is_plain_product(call, ProductForm.DENSE) else axes_of_convolution(call).input_weight
    factor = along_axes(data.scale, shape, axes)
    scaled = call_op("multiply", [weight, factor], merge_spans([weight.span, data.scale.span]))
    return Call(call.op, [data.value, scaled], call.attrs, call.type_args, merge_spans([call.span, data.span]))


Rewrite = Callable[[Call, Sequence[_State], "Message | None"], "_State | None"]
REWRITE: RulesOfScaling[Rewrite] = RulesOfScaling(
    activation=_through_activation,
    sum=_through_sum,
    product=_product,
    convolution=_into_weight,
    dense=_into_weight,
)


def fold_forward(func: Function) -> Function:
    """The typed *func* with scales in the weights after them; itself where there is none."""
    order = list(post_order(func, fusion_children))
    messages = _messages(order)
    states: dict[RelayExpr, _State] = {}
    for node in order:
        inner = fusion_children(node)
        args = [states[c] for c in inner]
        rule = REWRITE.of(node)
        new = rule(as_call(node), args, messages.get(node)) if rule is not None else None
        if new is None:
            new = rebuild(node, [_unscaled(arg) for arg in args]) if inner else node
        states[node] = new
    return as_function(_unscaled(states[func]))
