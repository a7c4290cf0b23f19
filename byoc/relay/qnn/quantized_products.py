"""What QuantizedProducts does: a product of dequantized numbers is the product of their integers, and one scale.

A model with QuantizeLinear and DequantizeLinear around its operators says in float32 what integers should compute:
``sum((s (x - z)) (t w))`` is ``s t sum((x - z) w)``, where the sum is exact. Importing folds weights into float32; they
are taken apart again where each output's weights are whole multiples of one number, but for rounding. Results differ
from the float ones by the rounding in float32 alone, of which the integers have less. Source: what
``FakeQuantizationToInteger`` of Relay does for its own quantized operators.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.traits import ProductForm
from byoc.ir.types import TensorType
from byoc.relay import op as relay
from byoc.relay.analysis.operator_calls import calls, moves_one
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, constant
from byoc.relay.interpreter import evaluate
from byoc.relay.narrowing import as_function, tensor_type
from byoc.relay.op.nn.convolution.geometry import conv_geometry
from byoc.relay.qnn.narrow_integers import BYTES, FEWEST_CHANNELS, is_constant, shifted
from byoc.relay.transform.base.call_rules import by_form, rewrite_calls
from byoc.relay.traverse import rebuild

FLOAT, SUM = "float32", "int32"
GREATEST = 128  # a byte with a sign stays below
ROUNDING = 2.0**-22  # of a product, and of the greatest one, from which the scale is found
Weights = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Dequantized:
    """``scale * float32(integers)``, with integers of 32 bits that are 8 bits less a zero point."""

    integers: RelayExpr
    scale: float


def dequantized(expr: RelayExpr) -> Dequantized | None:
    """*expr* as integers and one scale; None where it is something else."""
    if moves_one(expr):
        base = dequantized(expr.args[0])
        if base is None:
            return None
        moved = rebuild(expr, [base.integers])
        infer_expr(moved)
        return Dequantized(moved, base.scale)
    if calls(expr, "qnn.dequantize"):
        return _of_bytes(expr)
    if not calls(expr, "multiply"):
        return None
    left, right = expr.args
    if not calls(left, "cast") or tensor_type(left).shape != tensor_type(expr).shape:
        return None
    integers = left.args[0]
    if tensor_type(integers).dtype != SUM or shifted(integers) is None or not is_constant(right):
        return None
    scale = np.asarray(evaluate(right))
    return Dequantized(integers, float(scale.reshape(()))) if scale.size == 1 else None


def _of_bytes(call: Call) -> Dequantized | None:
    """The bytes less their zero point that ``qnn.dequantize`` reads; None for other integers and several scales."""
    data, scale, zero = call.args
    if tensor_type(data).dtype not in BYTES or not isinstance(scale, Constant) or not isinstance(zero, Constant):
        return None
    if scale.data.numpy().size != 1 or zero.data.numpy().size != 1:
        return None
    integers, point = relay.cast(data, SUM), int(zero.data.numpy().reshape(()))
    if point:
        integers = relay.subtract(integers, constant(np.int32(point)))
    infer_expr(integers)
    return Dequantized(integers, float(scale.data.numpy().reshape(())))


def whole_multiples(weights: np.ndarray) -> Weights | None:
    """``f32[outputs, terms]`` as bytes and a scale for each output whose products round to *weights*; else None.

    A scale is the greatest weight, of the output or of all outputs, by a number of steps.
    """
    greatest = np.abs(weights).max(1).astype("float64")
    if not np.isfinite(greatest).all():
        return None
    scales, whole = np.ones(len(weights)), np.zeros(weights.shape, "int8")
    left = np.flatnonzero(greatest)
    for steps in range(GREATEST, 0, -1):
        for top in (np.full(len(weights), greatest.max()), greatest):
            scale = top[left] / steps
            rows = np.rint(weights[left] / scale[:, None])
            near = np.abs(rows * scale[:, None] - weights[left]) <= ROUNDING * np.abs(weights[left])
            fits = near.all(1) & (rows.max(1) < GREATEST) & (rows.min(1) >= -GREATEST)
            scales[left[fits]], whole[left[fits]] = scale[fits], rows[fits]
            left = left[~fits]
        if not len(left):
            return whole, scales
    return None


def _weights(expr: RelayExpr, axis: int) -> Weights | None:
    """Constant weights as bytes and a scale for each position along *axis*."""
    if calls(expr, "qnn.dequantize"):
        return _bytes_with_scales(expr, axis)
    if not isinstance(expr.checked_type, TensorType) or not is_constant(expr):
        return None
    values = np.moveaxis(np.asarray(evaluate(expr)), axis, 0)
    found = whole_multiples(np.asarray(values, order="C").reshape(len(values), -1))
    return None if found is None else (np.moveaxis(found[0].reshape(values.shape), 0, axis), found[1])


def _bytes_with_scales(call: Call, axis: int) -> Weights | None:
    """What ``qnn.dequantize`` reads, where that is constant bytes with a sign, and no zero points."""
    whole, scales, zeros = (a.data.numpy() if isinstance(a, Constant) else None for a in call.args)
    if whole is None or scales is None or zeros is None or whole.dtype != np.int8 or zeros.any():
        return None
    if scales.size == 1:
        return whole, np.full(whole.shape[axis], float(scales.reshape(())))
    along = call.attrs.axis % whole.ndim == axis % whole.ndim
    return (whole, scales.astype("float64")) if along else None


def _conv(call: Call) -> tuple[int, tuple[int, ...]] | None:
    attrs = call.attrs
    geometry = conv_geometry([a.checked_type for a in call.args], attrs, len(attrs.strides))
    if geometry.is_depthwise or geometry.reduced < FEWEST_CHANNELS:
        return None
    layout = attrs.out_layout or attrs.data_layout
    return attrs.kernel_layout.index("O"), tuple(-1 if letter == "C" else 1 for letter in layout)


def _matmul(call: Call) -> tuple[int, tuple[int, ...]] | None:
    ndim = tensor_type(call.args[1]).ndim
    return None if call.attrs.transpose_a else (ndim - 2 if call.attrs.transpose_b else ndim - 1, (-1,))


# the axis of the weights along which outputs lie, and the shape in which a number for each goes beside the result
ProductPlace = Callable[[Call], "tuple[int, tuple[int, ...]] | None"]
PLACES: Mapping[ProductForm, ProductPlace] = {
    ProductForm.CONVOLUTION: _conv,
    ProductForm.DENSE: lambda call: (0, (-1,)),
    ProductForm.MATRICES: _matmul,
}


def _rewritten(place: ProductPlace) -> Callable[[Call, Call], RelayExpr]:
    def rewritten(before: Call, after: Call) -> RelayExpr:
        if tensor_type(before).dtype != FLOAT or not is_constant(after.args[1]):
            return after
        for arg in after.args:
            infer_expr(arg)
        data, where = dequantized(after.args[0]), place(before)
        weights = None if data is None or where is None else _weights(after.args[1], where[0])
        if data is None or where is None or weights is None:
            return after
        whole, scales = weights
        attrs = dataclasses.replace(after.attrs, out_dtype=SUM)
        wide = relay.cast(constant(whole), SUM)
        sums = Call(after.op, [data.integers, wide], attrs, None, before.span)
        scale = constant((scales * data.scale).astype(FLOAT).reshape(where[1]))
        made = relay.multiply(relay.cast(sums, FLOAT), scale)
        infer_expr(made)
        return made

    return rewritten


def _quantized(before: Call, after: Call) -> RelayExpr:
    """``qnn.quantize`` by one constant scale as a product with its reciprocal, which is faster than to divide."""
    _, scale, zero = after.args
    if tensor_type(before.args[0]).dtype != FLOAT or not isinstance(scale, Constant) or not isinstance(zero, Constant):
        return after
    if scale.data.numpy().size != 1 or zero.data.numpy().size != 1:
        return after
    limits = np.iinfo(after.attrs.out_dtype)
    if limits.bits > 16:  # a float32 has no such limits
        return after
    made = relay.multiply(after.args[0], constant(np.float32(1.0) / scale.data.numpy().reshape(())))
    point = int(zero.data.numpy().reshape(()))
    moved = relay.add(made, constant(np.float32(point))) if point else made
    kept = relay.clip(moved, float(limits.min), float(limits.max))
    return relay.cast(relay.round(kept), after.attrs.out_dtype)


def integer_products(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with the products of dequantized operands on their integers."""
    rules = by_form({form: _rewritten(place) for form, place in PLACES.items()})
    return as_function(rewrite_calls(func, {**rules, "qnn.quantize": _quantized}, mod))
