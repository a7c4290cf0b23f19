"""Gradients of reductions: the gradient of the result, spread over what was reduced."""

from __future__ import annotations

import math

from byoc.annex.gradients.rules.rules import axes_of, gradient, scalar, shape, tensor
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call


def _axes(orig: Call) -> list[int]:
    attrs = orig.attrs
    return axes_of(attrs.axis, tensor(orig.args[0]).ndim, attrs.exclude)


def _kept(orig: Call, value: RelayExpr) -> RelayExpr:
    """*value*, which has the shape of the result, with the reduced axes as 1."""
    if orig.attrs.keepdims:
        return value
    for axis in _axes(orig):
        value = op.expand_dims(value, axis)
    return value


def _count(orig: Call) -> int:
    sizes = shape(orig.args[0])
    return math.prod(sizes[a] for a in _axes(orig))


@gradient("sum")
def sum_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad for every element."""
    return [op.broadcast_to_like(_kept(orig, grad), orig.args[0])]


@gradient("mean")
def mean_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad / n for every element."""
    share = op.divide(_kept(orig, grad), scalar(float(_count(orig)), orig))
    return [op.broadcast_to_like(share, orig.args[0])]


@gradient("variance")
def variance_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """2 * grad * (x - mean) / n, and minus its sum for the mean."""
    data, mean = orig.args
    count = _count(orig) - (1 if orig.attrs.unbiased else 0)
    wide = op.multiply(_kept(orig, grad), scalar(2.0 / count, orig))
    by_data = op.multiply(wide, op.subtract(data, mean))
    return [by_data, op.negative(op.collapse_sum_like(by_data, mean))]


@gradient("max", "min")
def extreme_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad to the extreme elements, in equal shares."""
    data = orig.args[0]
    mask = op.cast_like(op.equal(data, _kept(orig, orig)), data)
    count = op.sum(mask, axis=_axes(orig), keepdims=True)
    return [op.multiply(op.divide(_kept(orig, grad), count), mask)]


@gradient("prod")
def prod_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad * the product of all other elements, which are multiplied without the element itself."""
    data, axes, ndim = orig.args[0], _axes(orig), tensor(orig.args[0]).ndim
    sizes = shape(data)
    kept = [a for a in range(ndim) if a not in axes]
    count = math.prod(sizes[a] for a in axes)
    order = [*kept, *axes]
    flat = op.reshape(op.transpose(data, order), [*(sizes[a] for a in kept), count])
    last = len(kept)
    before = op.cumprod(flat, axis=last, exclusive=True)
    after = op.reverse(op.cumprod(op.reverse(flat, last), axis=last, exclusive=True), last)
    others = op.reshape(op.multiply(before, after), [sizes[a] for a in order])
    back = op.transpose(others, [order.index(a) for a in range(ndim)])
    return [op.multiply(_kept(orig, grad), back)]


@gradient("cumsum")
def cumsum_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum of grad from each place on."""
    attrs, data = orig.attrs, orig.args[0]
    axis = 0 if attrs.axis is None else attrs.axis % tensor(data).ndim
    exclusive = bool(attrs.exclusive)
    back = op.reverse(op.cumsum(op.reverse(grad, axis), axis=axis, exclusive=exclusive), axis)
    return [op.cast_like(op.reshape_like(back, data), data)]
