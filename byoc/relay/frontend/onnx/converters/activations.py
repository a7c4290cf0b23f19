"""Activation functions: those that Relay has, and the others by their formulas. Source: ONNX operator schemas."""

from __future__ import annotations

import math
from collections.abc import Callable

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.attributes import in_float32
from byoc.relay.frontend.onnx.dtypes import FLOATS
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter


def clipped(node: OnnxNode, data: RelayExpr, low: float | None, high: float | None) -> RelayExpr:
    """*data* between two bounds, of which either may be missing."""
    if low is not None:
        data = relay.maximum(data, node.like(low, node[0]))
    return relay.minimum(data, node.like(high, node[0])) if high is not None else data


@converter("Relu")
def _relu(node: OnnxNode) -> RelayExpr:
    return relay.nn.relu(node[0])


@converter("LeakyRelu")
def _leaky_relu(node: OnnxNode) -> RelayExpr:
    return relay.nn.leaky_relu(node[0], node.attrs.float("alpha", 0.01))


@converter("PRelu")
def _prelu(node: OnnxNode) -> RelayExpr:
    """A slope for each channel becomes nn.prelu; any other shape is broadcast."""
    data, slope = node[0], node[1]
    shape, slopes = node.shape(data), node.shape(slope)
    if node.opset < 7 and len(slopes) == 1 and len(shape) > 1 and slopes[0] != 1:
        slopes = (slopes[0], *[1] * (len(shape) - 2))
    channels = len(shape) > 1 and len(slopes) == len(shape) - 1 and slopes[0] == shape[1]
    if channels and all(d == 1 for d in slopes[1:]) and isinstance(slopes[0], int):
        return relay.nn.prelu(data, relay.reshape(slope, [slopes[0]]), axis=1)
    from byoc.relay.frontend.onnx.dims import agreeing

    # the slope is broadcast to the data, never the data to the slope
    for axis, size in enumerate(reversed(slopes[-len(shape) :]), 1):
        if isinstance(size, int) and size > 1:
            data = agreeing(node, data, -axis, size)
    zero = node.like(0, data)
    return relay.where(relay.less(data, zero), relay.multiply(data, slope), data)


@converter("Clip")
def _clip_attributes(node: OnnxNode) -> RelayExpr:
    if "min" in node.attrs and "max" in node.attrs:
        return relay.clip(node[0], node.attrs.float("min"), node.attrs.float("max"))
    low = node.attrs.float("min") if "min" in node.attrs else None
    high = node.attrs.float("max") if "max" in node.attrs else None
    return clipped(node, node[0], low, high)


@converter("Clip", since=11)
def _clip(node: OnnxNode) -> RelayExpr:
    low, high = node.value(1), node.value(2)
    if low is not None and high is not None and low.size == high.size == 1 and low <= high:
        return relay.clip(node[0], low.item(), high.item())
    data = node[0]
    if node.optional(1) is not None:
        data = relay.maximum(data, node[1])
    return relay.minimum(data, node[2]) if node.optional(2) is not None else data


@converter("HardSigmoid")
def _hard_sigmoid(node: OnnxNode) -> RelayExpr:
    return _hard(node, node.attrs.float("alpha", 0.2), node.attrs.float("beta", 0.5))


@converter("HardSwish")
def _hard_swish(node: OnnxNode) -> RelayExpr:
    """By its definition as a function, ``x * HardSigmoid(x)`` with an alpha that is an attribute."""
    return relay.multiply(node[0], _hard(node, in_float32(1 / 6), 0.5))


def _hard(node: OnnxNode, alpha: float, beta: float) -> RelayExpr:
    line = relay.add(relay.multiply(node[0], node.like(alpha, node[0])), node.like(beta, node[0]))
    return relay.clip(line, 0.0, 1.0)


def _exponential(node: OnnxNode, alpha: float, inner: float, gamma: float) -> RelayExpr:
    """``gamma * (x if x > 0 else alpha * (exp(x / inner) - 1))``; the negative branch never sees a positive x."""
    x, zero = node[0], node.like(0, node[0])
    low = relay.minimum(x, zero)
    if inner != 1:
        low = relay.divide(low, node.like(inner, x))
    tail = relay.multiply(relay.expm1(low), node.like(alpha, x))
    result = relay.where(relay.greater(x, zero), x, tail)
    return result if gamma == 1 else relay.multiply(result, node.like(gamma, x))


@converter("Elu")
def _elu(node: OnnxNode) -> RelayExpr:
    return _exponential(node, node.attrs.float("alpha", 1.0), 1, 1)


@converter("Celu")
def _celu(node: OnnxNode) -> RelayExpr:
    alpha = node.attrs.float("alpha", 1.0)
    return _exponential(node, alpha, alpha, 1)


@converter("Selu")
def _selu_old(node: OnnxNode) -> RelayExpr:
    return _exponential(node, node.attrs.float("alpha", 1.6732), 1, node.attrs.float("gamma", 1.0507))


@converter("Selu", since=6)
def _selu(node: OnnxNode) -> RelayExpr:
    alpha = node.attrs.float("alpha", 1.67326319217681884765625)
    return _exponential(node, alpha, 1, node.attrs.float("gamma", 1.05070102214813232421875))


@converter("Softplus")
def _softplus(node: OnnxNode) -> RelayExpr:
    """``log(1 + exp(x))`` as ``max(x, 0) + log1p(exp(-|x|))``, which does not overflow."""
    x = node[0]
    return relay.add(relay.nn.relu(x), relay.log1p(relay.exp(relay.negative(relay.abs(x)))))


@converter("Softsign")
def _softsign(node: OnnxNode) -> RelayExpr:
    return relay.divide(node[0], relay.add(relay.abs(node[0]), node.like(1, node[0])))


@converter("Mish")
def _mish(node: OnnxNode) -> RelayExpr:
    return relay.multiply(node[0], relay.tanh(_softplus(node)))


@converter("Swish")
def _swish(node: OnnxNode) -> RelayExpr:
    alpha = node.attrs.float("alpha", 1.0)
    scaled = node[0] if alpha == 1 else relay.multiply(node[0], node.like(alpha, node[0]))
    return relay.multiply(node[0], relay.sigmoid(scaled))


@converter("Gelu", since=20)
@converter("Gelu", domain=MICROSOFT)
def _gelu(node: OnnxNode) -> RelayExpr:
    return gelu(node, node[0], node.attrs.string("approximate", "none") == "tanh")


def gelu(node: OnnxNode, x: RelayExpr, by_tanh: bool) -> RelayExpr:
    """``x`` times the share of the normal distribution below it, exact or approximated by a tanh."""
    half, one = node.like(0.5, x), node.like(1.0, x)
    if by_tanh:
        cubed = relay.multiply(relay.multiply(relay.multiply(x, x), x), node.like(0.044715, x))
        inner = relay.tanh(relay.multiply(relay.add(x, cubed), node.like(math.sqrt(2 / math.pi), x)))
    else:
        inner = relay.erf(relay.multiply(x, node.like(1 / math.sqrt(2), x)))
    return relay.multiply(relay.multiply(x, half), relay.add(inner, one))


@converter("ThresholdedRelu")
def _thresholded_relu(node: OnnxNode) -> RelayExpr:
    x = node[0]
    above = relay.greater(x, node.like(node.attrs.float("alpha", 1.0), x))
    return relay.where(above, x, relay.zeros_like(x))


@converter("Shrink")
def _shrink(node: OnnxNode) -> RelayExpr:
    """Integers are shrunk as float64 and cut off towards zero: bias and lambda may be fractions."""
    dtype, bias, lambd = node.dtype(node[0]), node.attrs.float("bias", 0.0), node.attrs.float("lambd", 0.5)
    work = dtype if dtype in FLOATS else "float64"
    x, shift = relay.cast(node[0], work) if work != dtype else node[0], constant(bias, work)
    low = relay.where(relay.less(x, constant(-lambd, work)), relay.add(x, shift), relay.zeros_like(x))
    shrunk = relay.where(relay.greater(x, constant(lambd, work)), relay.subtract(x, shift), low)
    return relay.cast(shrunk, dtype) if work != dtype else shrunk


def _along_axis(node: OnnxNode, builder: str, default_axis: int) -> RelayExpr:
    axis = node.axis(node.attrs.int("axis", default_axis), node.rank(node[0]))
    result: RelayExpr = getattr(relay.nn, builder)(node[0], axis=axis)
    return result


def _flattened(node: OnnxNode, along: Callable[[RelayExpr, int], RelayExpr]) -> RelayExpr:
    """Before opset 13: over all dimensions from *axis* on, as if they were one."""
    shape = node.shape(node[0])
    axis = node.axis(node.attrs.int("axis", 1), len(shape)) if shape else 0
    if axis == len(shape) - 1 or all(d == 1 for d in shape[axis + 1 :]):
        return along(node[0], axis)
    result = along(relay.reshape(node[0], [*[0] * axis, -1]), axis)
    if all(isinstance(d, int) for d in shape):
        return relay.reshape(result, list(shape))
    return relay.reshape(result, relay.shape_of(node[0], "int64"))


@converter("Softmax")
def _softmax_flat(node: OnnxNode) -> RelayExpr:
    return _flattened(node, relay.nn.softmax)


@converter("LogSoftmax")
def _log_softmax_flat(node: OnnxNode) -> RelayExpr:
    return _flattened(node, relay.nn.log_softmax)


@converter("Softmax", since=13)
def _softmax(node: OnnxNode) -> RelayExpr:
    return _along_axis(node, "softmax", -1)


@converter("LogSoftmax", since=13)
def _log_softmax(node: OnnxNode) -> RelayExpr:
    return _along_axis(node, "log_softmax", -1)


@converter("Hardmax")
def _hardmax_flat(node: OnnxNode) -> RelayExpr:
    return _flattened(node, lambda data, axis: _hardmax_along(node, data, axis))


@converter("Hardmax", since=13)
def _hardmax(node: OnnxNode) -> RelayExpr:
    return _hardmax_along(node, node[0], node.axis(node.attrs.int("axis", -1), node.rank(node[0])))


def _hardmax_along(node: OnnxNode, data: RelayExpr, axis: int) -> RelayExpr:
    dtype, shape = node.dtype(data), node.shape(data)
    winner, size = relay.argmax(data, axis=[axis]), shape[axis]
    on, off = constant(1, dtype), constant(0, dtype)
    if isinstance(size, int):
        return relay.one_hot(winner, on, off, size, axis, dtype)
    from byoc.relay.frontend.onnx.dims import matched  # few models need it

    extent = relay.take(relay.shape_of(data, "int64"), constant(axis, "int64"))
    return matched(node, relay.one_hot(winner, on, off, extent, axis, dtype), shape)
