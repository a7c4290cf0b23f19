"""Numpy kernels of quantized operators on each element, or on pairs of elements.

Sums bring both sides to the scale of the result; products are rescaled once; functions go through float32.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.elementwise import SAME_DTYPE
from byoc.runtime.kernels.nn.activation import softmax as float_softmax
from byoc.runtime.kernels.qnn.fixed_point import multiply_fixed_point
from byoc.runtime.kernels.qnn.parameters import narrow, scalar, spread
from byoc.runtime.kernels.qnn.quantize import dequantized, quantized
from byoc.runtime.kernels.qnn.requantize import RequantizeAttributes, requantized
from byoc.runtime.kernels.qnn.rounding import UPWARD

INT32 = np.dtype(np.int32)
Parameter = np.ndarray


def rescaled(
    data: np.ndarray,
    scale: Parameter,
    zero_point: Parameter,
    out_scale: Parameter,
    out_zero_point: Parameter,
    axis: int,
) -> np.ndarray:
    """*data* under the scale and zero point of the result, as int32; only widened where these are the same."""
    sizes = {scale.size, zero_point.size}
    if sizes == {1} and scalar(scale) == scalar(out_scale) and scalar(zero_point) == scalar(out_zero_point):
        return data.astype(INT32)
    return requantized(data, scale, zero_point, out_scale, out_zero_point, INT32, RequantizeAttributes(axis=axis))


@dataclass(frozen=True)
class Side:
    """A side of a quantized operator: its numbers, and their scale and zero point, which may lie along *axis*."""

    data: np.ndarray
    scale: Parameter
    zero_point: Parameter
    axis: int

    def rescaled(self, scale: Parameter, zero_point: Parameter) -> np.ndarray:
        """The numbers under the scale and the zero point of the result, as int32."""
        return rescaled(self.data, self.scale, self.zero_point, scale, zero_point, self.axis)

    def shifted(self) -> np.ndarray:
        """The numbers without the zero point, as int32."""
        return self.data.astype(INT32) - spread(self.zero_point, self.axis, self.data.ndim).astype(INT32)


def _of_two_sides(function: Callable[[Side, Side, Parameter, Parameter], np.ndarray]) -> Callable[..., np.ndarray]:
    """The kernel that gives *function* both sides, and the scale and the zero point of the result."""

    def run(
        lhs: np.ndarray,
        rhs: np.ndarray,
        lhs_scale: Parameter,
        lhs_zero_point: Parameter,
        rhs_scale: Parameter,
        rhs_zero_point: Parameter,
        output_scale: Parameter,
        output_zero_point: Parameter,
        *,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> np.ndarray:
        left = Side(lhs, lhs_scale, lhs_zero_point, lhs_axis)
        right = Side(rhs, rhs_scale, rhs_zero_point, rhs_axis)
        return function(left, right, output_scale, output_zero_point)

    return run


def add(left: Side, right: Side, scale: Parameter, zero_point: Parameter) -> np.ndarray:
    """The sum of the numbers that are meant."""
    a, b = left.rescaled(scale, zero_point), right.rescaled(scale, zero_point)
    with np.errstate(over="ignore"):
        return narrow(np.asarray(a + b - zero_point.reshape(()).astype(INT32)), left.data.dtype)


def subtract(left: Side, right: Side, scale: Parameter, zero_point: Parameter) -> np.ndarray:
    """The difference of the numbers that are meant."""
    a, b = left.rescaled(scale, zero_point), right.rescaled(scale, zero_point)
    with np.errstate(over="ignore"):
        return narrow(np.asarray(a - b + zero_point.reshape(()).astype(INT32)), left.data.dtype)


def spread_from_last(parameter: Parameter, axis: int, ndim: int, out_ndim: int) -> np.ndarray:
    """A scale of a side of *ndim* axes, shaped for a result of *out_ndim*: axes are counted from the last."""
    return parameter.reshape(()) if parameter.size == 1 else spread(parameter, axis % ndim - ndim, out_ndim)


def mul(left: Side, right: Side, scale: Parameter, zero_point: Parameter) -> np.ndarray:
    """The product of the numbers that are meant: an int32 product, rescaled by the product of the scales."""
    with np.errstate(over="ignore"):
        product = np.asarray(left.shifted() * right.shifted())
    of_left = spread_from_last(left.scale, left.axis, left.data.ndim, product.ndim).astype(np.float32)
    of_both = of_left * spread_from_last(right.scale, right.axis, right.data.ndim, product.ndim).astype(np.float32)
    zero, how = np.zeros((), INT32), RequantizeAttributes()
    return requantized(product, np.asarray(of_both), zero, scale, zero_point, left.data.dtype, how)


for _name, _function_of_two in {"add": add, "subtract": subtract, "mul": mul}.items():
    kernel(f"qnn.{_name}")(_of_two_sides(_function_of_two))


def hard_swish(x: np.ndarray) -> np.ndarray:
    """``x * clip(x + 3, 0, 6) / 6``."""
    result: np.ndarray = x * np.clip(x + x.dtype.type(3), x.dtype.type(0), x.dtype.type(6)) / x.dtype.type(6)
    return result


FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    **{name: SAME_DTYPE[name] for name in ("tanh", "exp", "sqrt", "rsqrt", "erf", "sigmoid", "log", "abs")},
    "hardswish": hard_swish,
}


def _through_floats(function: Callable[[np.ndarray], np.ndarray]) -> Callable[..., np.ndarray]:
    def run(
        x: np.ndarray, scale: Parameter, zero_point: Parameter, output_scale: Parameter, output_zero_point: Parameter
    ) -> np.ndarray:
        with np.errstate(all="ignore"):
            value = np.asarray(function(dequantized(x, scale, zero_point, -1))).astype(np.float32, copy=False)
        return np.asarray(quantized(value, output_scale, output_zero_point, -1, x.dtype))

    return run


for _name, _function in FUNCTIONS.items():
    kernel(f"qnn.{_name}")(_through_floats(_function))


@kernel("qnn.softmax")
def softmax(
    x: np.ndarray,
    scale: Parameter,
    zero_point: Parameter,
    output_scale: Parameter,
    output_zero_point: Parameter,
    *,
    axis: int = -1,
) -> np.ndarray:
    """The softmax of the numbers that are meant, along *axis*."""
    value = float_softmax(dequantized(x, scale, zero_point, -1), axis=axis)
    return quantized(value, output_scale, output_zero_point, -1, x.dtype)


@kernel("qnn.leaky_relu")
def leaky_relu(
    x: np.ndarray,
    input_scale: Parameter,
    input_zero_point: Parameter,
    output_scale: Parameter,
    output_zero_point: Parameter,
    *,
    alpha: float,
) -> np.ndarray:
    """The number where it is positive, else *alpha* times it, by fixed-point products."""
    value = rescaled(x, input_scale, input_zero_point, output_scale, output_zero_point, -1)
    zero = output_zero_point.reshape(()).astype(INT32)
    below = multiply_fixed_point(value, np.array(alpha, np.float64), UPWARD)
    below = below + multiply_fixed_point(zero, np.array(1.0 - alpha, np.float64), UPWARD)
    return narrow(np.where(value < zero, below, value), x.dtype)
