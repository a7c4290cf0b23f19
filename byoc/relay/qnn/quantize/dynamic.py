"""Quantizing by ranges found when the model runs: dense products whose rows are each quantized by their own range.

As ONNX's DynamicQuantizeLinear and MatMulInteger, but a scale and a zero point for each row instead of one for the
tensor: rows are rounded finer, nothing waits for the whole tensor, and a row's result does not depend on the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.relay import op as relay
from byoc.relay.expr import Call, Function, constant
from byoc.relay.narrowing import as_constant
from byoc.relay.qnn.quantize.products import FLOAT, NO_SAMPLES, Left, is_product, refusal, rule_of
from byoc.relay.qnn.quantize.ranges import STEPS, quantize_weights
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order, rewrite

SUM = "int32"
Row = tuple[RelayExpr, RelayExpr, RelayExpr]


def quantize_dynamic(function: Function, keep: Sequence[str] = ()) -> tuple[Function, dict[Call, Left]]:
    """The typed *function* with its dense products on bytes, and why each of the other products is left.

    *keep* names operators and ONNX nodes that stay in float32.
    """
    reasons: dict[Call, Left] = {}
    rows: dict[RelayExpr, Row] = {}
    for node in post_order(function.body, fusion_children):
        if isinstance(node, Call) and is_product(node):
            reason = refusal(node, keep)
            rule = rule_of(node)
            if reason is None and (rule is None or not rule.may_be_dynamic):
                reason = NO_SAMPLES
            if reason is not None:
                reasons[node] = reason

    def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not (isinstance(before, Call) and is_product(before)) or before in reasons:
            return after
        assert isinstance(after, Call)
        data = after.args[0]
        if data not in rows:
            rows[data] = quantized_rows(data)
        return _product(before, rows[data])

    body = rewrite(function.body, replaced, fusion_children)
    func = Function(
        function.params, body, function.declared_ret_type, function.type_params, function.attrs, function.span
    )
    return func, reasons


def quantized_rows(data: RelayExpr) -> Row:
    """``data: f32[..., K]`` as ``u8[..., K]``, and the scale and the zero point of each row, both ``f32[..., 1]``.

    The range of a row holds 0; a row of zeros has the scale 1.
    """
    zero = constant(0.0, FLOAT)
    low = relay.minimum(relay.min(data, axis=[-1], keepdims=True), zero)
    high = relay.maximum(relay.max(data, axis=[-1], keepdims=True), zero)
    width = relay.multiply(relay.subtract(high, low), constant(1.0 / STEPS, FLOAT))
    scale = relay.where(relay.greater(width, zero), width, constant(1.0, FLOAT))
    inverse = relay.divide(constant(1.0, FLOAT), scale)
    point = relay.round(relay.multiply(relay.negative(low), inverse))
    moved = relay.add(relay.multiply(data, inverse), point)
    return relay.cast(relay.round(relay.clip(moved, 0.0, float(STEPS))), "uint8"), scale, point


def _product(call: Call, row: Row) -> RelayExpr:
    """``(sum(q w) - z sum(w)) * scale * weight scale``: sums in int32, the rest in float32."""
    data, scale, point = row
    rule = rule_of(call)
    assert rule is not None  # of what is quantized here
    axis = rule.axis(call)
    whole, scales = quantize_weights(as_constant(call.args[1]).data.numpy(), axis)
    attrs = dataclasses.replace(call.attrs, out_dtype=SUM)
    summed = Call(call.op, [data, constant(whole)], attrs, None, call.span)
    # weights [..., outputs, terms] or [..., terms, outputs]
    sums = whole.sum(axis=axis - 1 if axis == whole.ndim - 1 else axis + 1, dtype=np.int32)
    sums = sums[..., None, :] if whole.ndim > 2 else sums
    centred = relay.subtract(summed, relay.multiply(constant(sums), relay.cast(point, SUM)))
    return relay.multiply(relay.multiply(relay.cast(centred, FLOAT), scale), constant(scales))
