"""Lowering of ``qnn.requantize``: a product with a fixed-point number in integers, or with a float.

A scale that is not constant has no fixed-point number when compiling: the operator then stays as it is. Source:
``RequantizeLowerInt`` and ``RequantizeLowerFP``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, Type
from byoc.relay import op as relay
from byoc.relay.expr import constant
from byoc.relay.qnn.lowering.parameters import cast, is_zero, less_zero, narrow, number_of, scalar, value_of
from byoc.relay.qnn.op.op import register_qnn_canonicalize
from byoc.relay.qnn.op.requantize import RequantizeAttrs
from byoc.runtime.kernels.qnn.fixed_point import FRACTION_BITS, multiplier_and_shift
from byoc.runtime.kernels.qnn.parameters import limits
from byoc.runtime.kernels.qnn.parameters import spread as spread_array
from byoc.runtime.kernels.qnn.rounding import TOEVEN, UNSAID, UPWARD, resolve


@dataclass(frozen=True)
class Rescaling:
    """From one scale and zero point to another: the four parameters, the types of the first two, and their axis.

    A scale that has as many axes as the data is shaped to broadcast with it already.
    """

    scale: RelayExpr
    zero_point: RelayExpr
    out_scale: RelayExpr
    out_zero_point: RelayExpr
    types: Sequence[Type]
    axis: int = -1

    @property
    def is_known(self) -> bool:
        """True where both scales are constant."""
        return value_of(self.scale) is not None and number_of(self.out_scale) is not None

    @property
    def is_identity(self) -> bool:
        """True where both scales and both zero points are constant scalars and the same."""
        numbers = [number_of(p) for p in (self.scale, self.out_scale, self.zero_point, self.out_zero_point)]
        return None not in numbers and numbers[0] == numbers[1] and numbers[2] == numbers[3]

    def multipliers(self) -> np.ndarray | None:
        """The quotients of the scales as float64; None where both are one number and the same."""
        scale, out = value_of(self.scale), number_of(self.out_scale)
        assert scale is not None and out is not None
        if scale.size == 1:
            one = scale.reshape(())
            return None if one == out else one.astype(np.float64) / np.float64(out)
        return scale.astype(np.float64) / np.float64(out)


def _upward(data: RelayExpr, multipliers: np.ndarray, axis: int, ndim: int) -> RelayExpr:
    parts = [multiplier_and_shift(float(m)) for m in multipliers.reshape(-1)]
    if multipliers.ndim == 0:
        return relay.fixed_point_multiply(data, *parts[0])
    along = spread_array(multipliers, axis, ndim)
    axes = [k for k, size in enumerate(along.shape) if size > 1]
    shape = [along.shape[k] for k in axes]
    significands, shifts = (np.array(p, "int32").reshape(shape) for p in zip(*parts, strict=True))
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0)
    return relay.fixed_point_multiply_per_axis(
        data, constant(significands), constant(left), constant(right), bool(left.any()), bool(right.any()), axes
    )


def _to_nearest(data: RelayExpr, multipliers: np.ndarray, axis: int, ndim: int) -> RelayExpr:
    parts = [multiplier_and_shift(float(m)) for m in multipliers.reshape(-1)]
    significand, shift = (np.array(p, "int64").reshape(multipliers.shape) for p in zip(*parts, strict=True))
    bits = FRACTION_BITS + np.maximum(-shift, 0)

    def wide(values: np.ndarray) -> RelayExpr:
        return constant(np.array(spread_array(values, axis, ndim), "int64"))

    value = relay.cast(data, "int64")
    if (shift > 0).any():
        value = relay.left_shift(value, wide(np.maximum(shift, 0)))
    half = np.left_shift(np.int64(1), bits - 1)
    rounder = relay.where(relay.greater_equal(value, constant(0, "int64")), wide(half), wide(half - 1))
    total = relay.add(relay.multiply(value, wide(significand)), rounder)
    return relay.cast(relay.right_shift(total, wide(bits)), "int32")


def _in_integers(data: RelayExpr, ty: TensorType, how: Rescaling, rounding: str, out_dtype: str) -> RelayExpr:
    value = less_zero(cast(data, ty.dtype, "int32"), how.zero_point, how.types[1], how.axis, ty.ndim, "int32")
    multipliers = how.multipliers()
    if multipliers is not None:
        axis = how.axis % ty.ndim if ty.ndim else 0
        value = (
            _upward(value, multipliers, axis, ty.ndim)
            if rounding == UPWARD
            else _to_nearest(value, multipliers, axis, ty.ndim)
        )
    if not is_zero(how.out_zero_point):
        value = relay.add(value, scalar(how.out_zero_point, TensorType((), "int32"), "int32"))
    return narrow(value, out_dtype)


def _in_floats(data: RelayExpr, ty: TensorType, how: Rescaling, rounding: str, work: str, out_dtype: str) -> RelayExpr:
    value = less_zero(relay.cast(data, work), how.zero_point, how.types[1], how.axis, ty.ndim, work)
    multipliers = how.multipliers()
    if multipliers is not None:
        value = relay.multiply(constant(np.array(spread_array(multipliers, how.axis, ty.ndim), work)), value)
    if rounding == TOEVEN:
        value = relay.round(value)
    elif rounding == UPWARD:
        value = relay.floor(relay.add(value, constant(0.5, work)))
    else:  # halves away from zero, each step exact
        whole = relay.trunc(value)
        value = relay.add(whole, relay.trunc(relay.multiply(relay.subtract(value, whole), constant(2.0, work))))
    if not is_zero(how.out_zero_point):
        value = relay.add(value, scalar(how.out_zero_point, TensorType((), "int32"), work))
    low, high = limits(np.dtype(out_dtype), np.dtype(work))
    return relay.cast(relay.clip(value, float(low), float(high)), out_dtype)


def requantized(
    data: RelayExpr,
    ty: TensorType,
    how: Rescaling,
    out_dtype: str,
    rounding: str = UNSAID,
    compute_dtype: str = UNSAID,
) -> RelayExpr:
    """*data* of type *ty* under other parameters, as *out_dtype*. Requires ``how.is_known``."""
    rounding, compute_dtype = resolve(rounding, compute_dtype)
    if compute_dtype == "int64":
        return _in_integers(data, ty, how, rounding, out_dtype)
    return _in_floats(data, ty, how, rounding, compute_dtype, out_dtype)


@register_qnn_canonicalize("qnn.requantize")
def lower_requantize(attrs: RequantizeAttrs, inputs: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    """``qnn.requantize`` as integer or float arithmetic; None where a scale is not constant."""
    data = types[0]
    assert isinstance(data, TensorType)
    scale, point, new_scale, new_point = inputs[1:]
    how = Rescaling(scale, point, new_scale, new_point, types[1:3], attrs.axis)
    if not how.is_known:
        return None
    return requantized(inputs[0], data, how, attrs.out_dtype, attrs.rounding, attrs.compute_dtype)
