"""Scales that go backward into the weights before them.

First every value says whether it may be scaled (:class:`Message`), from inputs to results; then each product with a
scale that its other factor may take hands it down. A value that has several readers, or is the result, may not be
scaled. Source: ``BackwardPrep`` and ``BackwardTransformer`` of ``src/relay/transforms/fold_scale_axis.cc``.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.span import AnySpan, merge_spans
from byoc.ir.traits import ProductForm
from byoc.relay.analysis.operator_calls import calls, is_plain_product
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.scales.axes import (
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
from byoc.relay.traverse import post_order, rewrite

Messages = Mapping[RelayExpr, Message]
# a typed call and what its inputs may take -> what it may take
Prepare = Callable[[Call, Sequence["Message | None"]], "Message | None"]
# a typed call, what its inputs may take, the scale -> the scale of each input (None: unscaled), or of the operand


def _activation(call: Call, messages: Sequence[Message | None]) -> Message | None:
    return None if messages[0] is None else Message(messages[0].axes, True)


def _sum(call: Call, messages: Sequence[Message | None]) -> Message | None:
    """What one term may take, where the other is one number per channel or may take the same."""
    left, right = messages
    types = [tensor(arg) for arg in call.args]
    if left is not None and right is not None and left.axes == right.axes and types[0].shape == types[1].shape:
        return Message(left.axes, left.require_positive or right.require_positive)
    for k, message in ((0, left), (1, right)):
        whole = types[k]
        if message is None or not is_known(whole.shape, message.axes) or whole.shape != tensor(call).shape:
            continue
        if messages[1 - k] is None and as_scale(whole, call.args[1 - k], message.axes) is not None:
            return message
    return None


def _bias(call: Call, messages: Sequence[Message | None]) -> Message | None:
    axis = call.attrs.get_int("axis") % tensor(call).ndim
    return messages[0] if messages[0] is not None and messages[0].axes == (axis,) else None


def _convolution(call: Call, messages: Sequence[Message | None]) -> Message | None:
    axes = ConvAxes.of(call)
    if axes is None or not is_known(tensor(call.args[1]).shape, axes.output_weight):
        return None
    return Message(axes.result)


def _dense(call: Call, messages: Sequence[Message | None]) -> Message | None:
    return Message((tensor(call).ndim - 1,))


PREPARE: RulesOfScaling[Prepare] = RulesOfScaling(
    activation=_activation, sum=_sum, bias=_bias, convolution=_convolution, dense=_dense
)


def _messages(order: Sequence[RelayExpr]) -> dict[RelayExpr, Message]:
    """What every value may take."""
    readers = Counter(child for node in order for child in fusion_children(node))
    messages: dict[RelayExpr, Message] = {}
    for node in order:
        prepare = PREPARE.of(node)
        if prepare is None or readers[node] != 1:
            continue
        call = as_call(node)
        message = prepare(call, [messages.get(arg) for arg in call.args])
        if message is not None:
            messages[node] = message
    return messages


def _scale_of(call: Call, messages: Messages) -> tuple[RelayExpr, RelayExpr] | None:
    """The factor of a product that takes the other one, and that one as a scale."""
    for data, factor in (call.args, call.args[::-1]):
        message = messages.get(data)
        if message is None:
            continue
        scale = as_scale(tensor(data), factor, message.axes)
        if scale is not None and (not message.require_positive or is_all_positive(scale)):
            return (data, scale) if tensor(data) == tensor(call) else None
        return None
    return None


class ScalePlace(enum.Enum):
    """Where a call takes the scale of its result."""

    WEIGHTS = "weights"
    BIAS = "bias"
    TERMS = "terms"  # those that are not scaled already


_PLACES = RulesOfScaling(
    sum=ScalePlace.TERMS, bias=ScalePlace.BIAS, convolution=ScalePlace.WEIGHTS, dense=ScalePlace.WEIGHTS
)
_PASSING = RulesOfScaling(activation=True, sum=True, bias=True)


class _Plan:
    """Which values are scaled by what, handed down from the products; and the products that vanish."""

    def __init__(self, order: Sequence[RelayExpr]):
        self.messages = _messages(order)
        self.scales: dict[RelayExpr, RelayExpr] = {}
        self.gone: dict[RelayExpr, RelayExpr] = {}
        for node in reversed(order):
            if calls(node, "multiply") and node not in self.scales:
                found = _scale_of(node, self.messages)
                if found is not None:
                    self.gone[node], self.scales[found[0]] = found
            if node in self.scales and isinstance(node, Call) and _PASSING.of(node):
                for arg in self._scaled_arguments(node):
                    self.scales[arg] = self.scales[node]

    def _scaled_arguments(self, call: Call) -> list[RelayExpr]:
        return [arg for arg in call.args[:2] if arg in self.messages]

    def rewritten(self, call: Call, args: Sequence[RelayExpr], scale_span: AnySpan | None) -> Call:
        """The scaled *call* over its new arguments."""
        scale, message = self.scales[call], self.messages[call]
        new = list(args)
        place = _PLACES.of(call)
        if place is ScalePlace.WEIGHTS:
            weight, dense = tensor(call.args[1]), is_plain_product(call, ProductForm.DENSE)
            axes = (0,) if dense else axes_of_convolution(call).output_weight
            new[1] = _times(new[1], along_axes(scale, weight.shape, axes))
        elif place is ScalePlace.BIAS:
            new[1] = _times(new[1], scale)
        elif place is ScalePlace.TERMS:
            for k in range(2):
                if call.args[k] not in self.scales:
                    new[k] = _times(new[k], along_axes(scale, tensor(call).shape, message.axes))
        return Call(call.op, new, call.attrs, call.type_args, merge_spans([call.span, scale_span]))


def _times(value: RelayExpr, scale: RelayExpr) -> Call:
    return call_op("multiply", [value, scale], merge_spans([value.span, scale.span]))


def fold_backward(func: Function) -> Function:
    """The typed *func* with scales in the weights before them; itself where there is none."""
    order = list(post_order(func, fusion_children))
    plan = _Plan(order)
    if not plan.gone:
        return func
    origin = {data: node.span for node, data in plan.gone.items()}
    for node in reversed(order):  # a value that hands its scale on also hands on where it came from
        if node in plan.scales and node in origin:
            for arg in as_call(node).args:
                if arg in plan.scales:
                    origin.setdefault(arg, origin[node])
    done: dict[RelayExpr, RelayExpr] = {}

    def scaled(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if before in plan.gone:
            return done[plan.gone[before]]
        if before in plan.scales:
            return plan.rewritten(as_call(before), as_call(after).args, origin[before])
        return after

    return as_function(rewrite(func, scaled, fusion_children, done))
