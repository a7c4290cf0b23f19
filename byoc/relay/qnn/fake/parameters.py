"""Scales and zero points where rules compare, fold and shape them. Source: ``fake_quantization_to_integer.py``."""

from __future__ import annotations

import numpy as np

from byoc.ir.affine_type import TensorAffineType
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay import narrowing
from byoc.relay import op as relay
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Constant, constant
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform.simplify.fold_constant import fold_constants


def fold_constant(expr: RelayExpr) -> RelayExpr:
    """*expr* with what depends on constants alone computed; quantized operators stay."""
    return expr if isinstance(expr, Constant) else fold_constants(expr)


def get_zeros(scale: RelayExpr) -> RelayExpr:
    """Zero points of int32, one for each number of *scale*."""
    if isinstance(scale, Constant):
        return constant(np.zeros(scale.data.shape, "int32"))
    return fold_constant(relay.cast(relay.zeros_like(scale), "int32"))


def tensor_type(expr: RelayExpr) -> TensorType:
    """The inferred type of a tensor. Raises UserError for a tuple."""
    infer_expr(expr)
    return narrowing.tensor_type(expr)


def infer_shape(expr: RelayExpr) -> tuple[object, ...]:
    """The shape of *expr*."""
    return tensor_type(expr).shape


def approx_equal(x: RelayExpr, y: RelayExpr) -> bool:
    """True for constants whose numbers differ by less than 1e-5 of them, and for expressions of the same structure."""
    x, y = fold_constant(x), fold_constant(y)
    if isinstance(x, Constant) and isinstance(y, Constant):
        a, b = x.data.numpy(), y.data.numpy()
        return bool(a.size == 1 or b.size == 1 or a.shape == b.shape) and bool(np.allclose(a, b, rtol=1e-5, atol=0.0))
    return structural_equal(x, y)


def same_numbers(a: TensorAffineType, b: TensorAffineType) -> bool:
    """True when both stand for the same number with the same integer of the same dtype."""
    return a.dtype == b.dtype and approx_equal(a.scale, b.scale) and approx_equal(a.zero_point, b.zero_point)


def held_in(asked: TensorAffineType, dtype: str) -> TensorAffineType:
    """*asked* in *dtype*, that of the data of a quantized operator, which is that of its result.

    Bytes of the other sign stand for the same numbers by another zero point.
    """
    if {asked.dtype, dtype} != {"int8", "uint8"}:
        return TensorAffineType(asked.scale, asked.zero_point, dtype, asked.axis)
    shift = constant(128 if dtype == "uint8" else -128)
    return TensorAffineType(asked.scale, fold_constant(relay.add(asked.zero_point, shift)), dtype, asked.axis)


def is_per_axis(ty: TensorAffineType) -> bool:
    """True where scales or zero points are vectors of several numbers."""
    return any(d != 1 for p in (ty.scale, ty.zero_point) for d in infer_shape(p))


def along_axis(parameter: RelayExpr, ty: TensorAffineType, ndim: int) -> RelayExpr:
    """A number, or a vector of them, shaped to broadcast along the axis of *ty* with a tensor of *ndim* dimensions."""
    sizes = infer_shape(parameter)
    if all(d == 1 for d in sizes):
        return fold_constant(relay.reshape(parameter, ())) if sizes else parameter
    shape = [-1 if k == ty.axis % ndim else 1 for k in range(ndim)]
    return fold_constant(relay.reshape(parameter, shape))
