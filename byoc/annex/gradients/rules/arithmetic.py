"""Gradients of broadcasting arithmetic: each side gets its share, summed over what was broadcast."""

from __future__ import annotations

from byoc.annex.gradients.rules.rules import gradient, scalar, summed_like, tensor
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call


def _both(orig: Call, left: RelayExpr, right: RelayExpr) -> list[RelayExpr]:
    return [summed_like(part, arg, orig) for part, arg in zip((left, right), orig.args, strict=True)]


@gradient("add")
def add_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, grad."""
    return _both(orig, grad, grad)


@gradient("subtract")
def subtract_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, -grad."""
    return _both(orig, grad, op.negative(grad))


@gradient("multiply")
def multiply_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad * y, grad * x."""
    x, y = orig.args
    return _both(orig, op.multiply(grad, y), op.multiply(grad, x))


@gradient("divide")
def divide_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad / y, -grad * x / y^2."""
    _x, y = orig.args
    return _both(orig, op.divide(grad, y), op.negative(op.divide(op.multiply(grad, orig), y)))


@gradient("power")
def power_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad * y * x^(y-1), grad * x^y * log(x); the second is 0 where x is 0."""
    x, y = orig.args
    left = op.multiply(grad, op.multiply(y, op.power(x, op.subtract(y, op.ones_like(y)))))
    positive = op.greater(x, op.zeros_like(x))
    log = op.where(positive, op.log(op.where(positive, x, op.ones_like(x))), op.zeros_like(x))
    return _both(orig, left, op.multiply(grad, op.multiply(orig, log)))


def _choice_grad(orig: Call, grad: RelayExpr, first: RelayExpr, second: RelayExpr) -> list[RelayExpr]:
    x, y = orig.args
    half = op.multiply(grad, scalar(0.5, grad if grad.checked_type_ else orig))
    zero = op.zeros_like(orig)
    same = op.equal(x, y)
    return _both(
        orig, op.where(same, half, op.where(first, grad, zero)), op.where(same, half, op.where(second, grad, zero))
    )


@gradient("maximum")
def maximum_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the larger side, half to each where they are equal."""
    x, y = orig.args
    return _choice_grad(orig, grad, op.greater(x, y), op.less(x, y))


@gradient("minimum")
def minimum_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the smaller side, half to each where they are equal."""
    x, y = orig.args
    return _choice_grad(orig, grad, op.less(x, y), op.greater(x, y))


@gradient("mod", "floor_mod")
def floor_mod_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, -grad * (x - x mod y) / y."""
    x, y = orig.args
    return _both(orig, grad, op.negative(op.multiply(grad, op.round(op.divide(op.subtract(x, orig), y)))))


@gradient("where")
def where_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the side that was chosen; nothing to the condition."""
    cond, x, y = orig.args
    zero = op.zeros_like(grad)
    parts = op.where(cond, grad, zero), op.where(cond, zero, grad)
    return [op.zeros_like(cond), *(summed_like(p, a, orig) for p, a in zip(parts, (x, y), strict=True))]


@gradient("nn.prelu")
def prelu_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, below 0 times alpha; alpha gets the sum of grad * x over what is below 0."""
    x, alpha = orig.args
    ndim, axis = tensor(x).ndim, orig.attrs.axis
    wide = op.expand_dims(alpha, 1, ndim - 1 - axis % ndim) if axis % ndim != ndim - 1 else alpha
    below = op.less(x, op.zeros_like(x))
    by_alpha = op.where(below, op.multiply(grad, x), op.zeros_like(x))
    return [op.where(below, op.multiply(grad, wide), grad), op.sum(by_alpha, axis=axis, exclude=True)]
