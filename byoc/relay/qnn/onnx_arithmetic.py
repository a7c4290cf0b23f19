"""What LowerOnnxQuantization does: quantized operators as the arithmetic that ONNX defines, for what the host computes.

``qnn.quantize`` and ``qnn.requantize`` round to even where they say so (``TOEVEN``); products subtract their zero
points in int32, which is exact; sums, products of elements, joined tensors, means of windows and functions go through
floats, as the nodes between a DequantizeLinear and a QuantizeLinear do. Relay's own lowering
(``qnn.CanonicalizeOps``) brings the sides of a sum to the scale of the result first and rounds each: up to one step
more. Requires types; leaves what has scales that are not constant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.ir.attrs import Attrs, as_int, changed
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay import op as relay
from byoc.relay.expr import Call, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import as_function
from byoc.relay.op.core.builder import make_call
from byoc.relay.qnn.lowering.elementwise import FUNCTIONS
from byoc.relay.qnn.lowering.parameters import cast, is_zero, less_zero, spread, value_of
from byoc.relay.qnn.lowering.quantize import dequantized, lower_dequantize, lower_quantize, quantized_as_onnx
from byoc.relay.qnn.lowering.requantize import lower_requantize
from byoc.relay.transform.base.call_rules import rewrite_calls
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import post_order

INT32, FLOAT = "int32", "float32"
Rule = Callable[..., "RelayExpr | None"]


def _tensor(ty: Type) -> TensorType:
    assert isinstance(ty, TensorType)
    return ty


def _convolution(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    data, weight = _tensor(types[0]), _tensor(types[1])
    left = less_zero(cast(inputs[0], data.dtype, INT32), inputs[2], types[2], 0, data.ndim, INT32)
    right = cast(inputs[1], weight.dtype, INT32)
    if not is_zero(inputs[3]):
        points = value_of(inputs[3])
        if points is None or (points.size > 1 and as_int(attrs["groups"]) > 1):
            return None
        right = relay.subtract(right, spread(inputs[3], types[3], str(attrs["kernel_layout"]).index("O"), 4, INT32))
    return make_call("nn.conv2d", [left, right], changed(attrs, out_dtype=""))


def _dense(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    factors = [
        less_zero(cast(inputs[k], _tensor(types[k]).dtype, INT32), inputs[k + 2], types[k + 2], 0, 2, INT32)
        for k in (0, 1)
    ]
    return make_call("nn.dense", factors, changed(attrs, out_dtype=""))


def _of_two(function: Callable[[RelayExpr, RelayExpr], RelayExpr]) -> Rule:
    """An operator of two tensors: inputs are both, their scales and zero points in turn, and those of the result."""

    def lower(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        out = _tensor(types[-1])
        sides = [
            dequantized(inputs[k], _tensor(types[k]), inputs[n : n + 2], types[n : n + 2], as_int(axis))
            for k, n, axis in ((0, 2, attrs["lhs_axis"]), (1, 4, attrs["rhs_axis"]))
        ]
        floats = TensorType(out.shape, FLOAT)
        return quantized_as_onnx(function(*sides), floats, inputs[6:8], types[6:8], -1, out.dtype)

    return lower


def _of_one(function: Callable[[RelayExpr, Attrs], RelayExpr]) -> Rule:
    """An operator of one tensor, whose scale and zero point follow, and then those of the result."""

    def lower(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
        data, out = _tensor(types[0]), _tensor(types[-1])
        value = function(dequantized(inputs[0], data, inputs[1:3], types[1:3], -1), attrs)
        return quantized_as_onnx(value, TensorType(out.shape, FLOAT), inputs[3:5], types[3:5], -1, out.dtype)

    return lower


def _joined(attrs: Attrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    parts, scales, zeros = inputs[:3]
    if not isinstance(scales, Tuple) or not isinstance(zeros, Tuple):
        return None
    assert isinstance(types[0], TupleType)
    out, fields = _tensor(types[-1]), types[0].fields
    tensors = list(parts.fields) if isinstance(parts, Tuple) else [TupleGetItem(parts, k) for k in range(len(fields))]
    floats = []
    for value, ty, scale, zero in zip(tensors, fields, scales.fields, zeros.fields, strict=True):
        number = TensorType((), FLOAT), TensorType((), INT32)
        floats.append(dequantized(value, _tensor(ty), (scale, zero), number, -1))
    joined = relay.concatenate(floats, axis=as_int(attrs["axis"]))
    return quantized_as_onnx(joined, TensorType(out.shape, FLOAT), inputs[3:5], types[3:5], -1, out.dtype)


def _mean(value: RelayExpr, attrs: Attrs) -> RelayExpr:
    return make_call("nn.avg_pool2d", [value], attrs)


def _function(name: str) -> Rule:
    return _of_one(lambda value, attrs: FUNCTIONS[name](value))


RULES: Mapping[str, Rule] = {
    "qnn.quantize": lower_quantize,
    "qnn.dequantize": lower_dequantize,
    "qnn.requantize": lower_requantize,
    "qnn.conv2d": _convolution,
    "qnn.dense": _dense,
    "qnn.add": _of_two(relay.add),
    "qnn.subtract": _of_two(relay.subtract),
    "qnn.mul": _of_two(relay.multiply),
    "qnn.concatenate": _joined,
    "qnn.avg_pool2d": _of_one(_mean),
    **{f"qnn.{name}": _function(name) for name in FUNCTIONS},
}


def _applied(rule: Rule) -> Callable[[Call, Call], RelayExpr]:
    def applied(before: Call, after: Call) -> RelayExpr:
        types = [*(a.checked_type for a in before.args), before.checked_type]
        made = rule(before.attrs, after.args, types)
        if made is None:
            return after
        for node in post_order(made, lambda e: () if e in after.args else fusion_children(e)):
            if node.span is None:
                node.span = before.span
        return made

    return applied


def lowered(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with ONNX's arithmetic in the place of its quantized operators."""
    return as_function(rewrite_calls(func, {name: _applied(rule) for name, rule in RULES.items()}, mod))
