"""Gradients of elementwise functions of one tensor: f'(x) * grad."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from byoc.annex.gradients.rules.rules import gradient, scalar, tensor
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call
from byoc.relay.op import nn


def _one(x: RelayExpr) -> RelayExpr:
    return scalar(1.0, x)


# operator -> (x, f(x)) -> f'(x)
DERIVATIVES: dict[str, Callable[[RelayExpr, RelayExpr], RelayExpr]] = {
    "log": lambda x, y: op.divide(_one(x), x),
    "log2": lambda x, y: op.divide(_one(x), op.multiply(x, scalar(math.log(2.0), x))),
    "log10": lambda x, y: op.divide(_one(x), op.multiply(x, scalar(math.log(10.0), x))),
    "log1p": lambda x, y: op.divide(_one(x), op.add(_one(x), x)),
    "exp": lambda x, y: y,
    "exp2": lambda x, y: op.multiply(y, scalar(math.log(2.0), x)),
    "expm1": lambda x, y: op.add(y, _one(x)),
    "sqrt": lambda x, y: op.divide(scalar(0.5, x), y),
    "rsqrt": lambda x, y: op.multiply(scalar(-0.5, x), op.divide(y, x)),
    "sigmoid": lambda x, y: op.multiply(y, op.subtract(_one(x), y)),
    "tanh": lambda x, y: op.subtract(_one(x), op.multiply(y, y)),
    "sin": lambda x, y: op.cos(x),
    "cos": lambda x, y: op.negative(op.sin(x)),
    "tan": lambda x, y: op.add(_one(x), op.multiply(y, y)),
    "sinh": lambda x, y: op.cosh(x),
    "cosh": lambda x, y: op.sinh(x),
    "asin": lambda x, y: op.rsqrt(op.subtract(_one(x), op.multiply(x, x))),
    "acos": lambda x, y: op.negative(op.rsqrt(op.subtract(_one(x), op.multiply(x, x)))),
    "atan": lambda x, y: op.divide(_one(x), op.add(_one(x), op.multiply(x, x))),
    "asinh": lambda x, y: op.rsqrt(op.add(_one(x), op.multiply(x, x))),
    "acosh": lambda x, y: op.rsqrt(op.subtract(op.multiply(x, x), _one(x))),
    "atanh": lambda x, y: op.divide(_one(x), op.subtract(_one(x), op.multiply(x, x))),
    "erf": lambda x, y: op.multiply(scalar(2.0 / math.sqrt(math.pi), x), op.exp(op.negative(op.multiply(x, x)))),
    "abs": lambda x, y: op.where(op.less(x, op.zeros_like(x)), op.negative(op.ones_like(x)), op.ones_like(x)),
}


def _rule(derivative: Callable[[RelayExpr, RelayExpr], RelayExpr]) -> Callable[..., Sequence[RelayExpr]]:
    return lambda orig, grad: [op.multiply(grad, derivative(orig.args[0], orig))]


for _name, _derivative in DERIVATIVES.items():
    gradient(_name)(_rule(_derivative))


@gradient("negative")
def negative_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """-grad."""
    return [op.negative(grad)]


@gradient("copy", "annotation.checkpoint", "annotation.stop_fusion", "device_copy", "on_device")
def identity_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, since the value is that of the argument."""
    return [grad]


@gradient("cast")
def cast_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad in the dtype of the argument."""
    return [op.cast_like(grad, orig.args[0])]


@gradient("cast_like")
def cast_like_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad in the dtype of the argument; nothing for the tensor that gave the dtype."""
    return [op.cast_like(grad, orig.args[0]), op.zeros_like(orig.args[1])]


@gradient("clip")
def clip_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad where the value was within the limits."""
    x = orig.args[0]
    low, high = orig.attrs.a_min, orig.attrs.a_max
    above = op.where(op.less(scalar(high, x), x), op.zeros_like(x), op.ones_like(x))
    inside = op.where(op.less(x, scalar(low, x)), op.zeros_like(x), above)
    return [op.multiply(inside, grad)]


@gradient("nn.relu")
def relu_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad where the value is above 0."""
    x = orig.args[0]
    return [op.where(op.less(x, op.zeros_like(x)), op.zeros_like(x), grad)]


@gradient("nn.leaky_relu")
def leaky_relu_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, below 0 times alpha."""
    x, alpha = orig.args[0], orig.attrs.alpha
    return [op.where(op.less(x, op.zeros_like(x)), op.multiply(grad, scalar(alpha, x)), grad)]


@gradient("nn.softmax")
def softmax_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """y * (grad - sum(grad * y))."""
    axis = orig.attrs.axis
    return [op.multiply(op.subtract(grad, op.sum(op.multiply(grad, orig), axis=axis, keepdims=True)), orig)]


@gradient("nn.log_softmax")
def log_softmax_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad - softmax(x) * sum(grad)."""
    axis = orig.attrs.axis
    soft = nn.softmax(orig.args[0], axis=axis)
    return [op.subtract(grad, op.multiply(op.sum(grad, axis=axis, keepdims=True), soft))]


# functions that are flat wherever they have a derivative
for _name in ("ceil", "floor", "round", "trunc", "sign"):
    gradient(_name)(lambda orig, grad: [op.zeros_like(orig.args[0])])


@gradient("zeros_like", "ones_like", "full_like")
def constant_like_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """0: only shape and dtype of the first argument count; the number of ``full_like`` gets the sum."""
    zero = op.zeros_like(orig.args[0])
    return [zero] if len(orig.args) == 1 else [zero, op.cast_like(op.sum(grad), orig.args[1])]


@gradient(
    "shape_of",
    "ndarray_size",
    "argmax",
    "argmin",
    "argsort",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_not",
    "logical_xor",
    "isnan",
    "isinf",
    "isfinite",
    "floor_divide",
)
def discrete_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """0: the result does not change with small changes."""
    return [op.zeros_like(arg) for arg in orig.args if tensor(arg)]
