"""Gradients of operators that pick elements: what was picked gets the gradient, the rest nothing."""

from __future__ import annotations

import math

from byoc.annex.gradients.rules.rules import gradient, scalar, shape, tensor
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call, constant
from byoc.relay.op.movement.slice import slices


def _in_range(indices: RelayExpr, size: int, mode: str) -> RelayExpr:
    if mode == "clip":
        return op.clip(indices, 0, size - 1)
    if mode == "wrap":
        return op.floor_mod(indices, scalar(size, indices))
    return indices


@gradient("take")
def take_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad added where it was taken from. Raises UserError for batches of indices."""
    (data, indices), attrs = orig.args, orig.attrs
    if attrs.batch_dims:
        raise UserError("take with batch_dims has no gradient")
    sizes, picked = list(shape(data)), list(shape(indices))
    axis = attrs.axis
    if axis is None:
        sizes, axis = [math.prod(sizes)], 0
    axis %= len(sizes)
    places = op.expand_dims(_in_range(indices, sizes[axis], attrs.mode), 0)
    rank = len(picked) + len(sizes) - 1
    chosen = list(range(axis, axis + len(picked)))
    first = op.transpose(grad, [*chosen, *(a for a in range(rank) if a not in chosen)]) if axis else grad
    others = [n for a, n in enumerate(sizes) if a != axis]
    base = op.zeros([sizes[axis], *others], tensor(data).dtype)
    added = op.scatter_nd(base, places, first, mode="add")
    if axis:
        added = op.transpose(added, [*range(1, axis + 1), 0, *range(axis + 1, len(sizes))])
    return [op.reshape_like(added, data), op.zeros_like(indices)]


@gradient("gather_nd")
def gather_nd_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad added where it was gathered from. Raises UserError for batches of indices."""
    data, indices = orig.args
    if orig.attrs.batch_dims:
        raise UserError("gather_nd with batch_dims has no gradient")
    return [op.scatter_nd(op.zeros_like(data), indices, grad, mode="add"), op.zeros_like(indices)]


@gradient("gather")
def gather_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad added where it was gathered from."""
    data, indices = orig.args
    axis = orig.attrs.axis
    return [op.scatter_elements(op.zeros_like(data), indices, grad, axis, "add"), op.zeros_like(indices)]


@gradient("strided_slice")
def strided_slice_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad put where it was cut out, 0 elsewhere."""
    data, attrs = orig.args[0], orig.attrs
    sizes, dtype = shape(data), "int32"
    cuts, result = slices(attrs, len(sizes)), grad
    for axis, kept in enumerate(shape(orig)):
        if axis in cuts:
            begin, _, step = cuts[axis].indices(sizes[axis])
            result = _put(result, axis, [begin + k * step for k in range(kept)], sizes[axis], dtype)
    return [op.reshape_like(result, data)]


def _put(value: RelayExpr, axis: int, places: list[int], size: int, dtype: str) -> RelayExpr:
    """*value* with its rows along *axis* at *places* of *size*, a row of zeros elsewhere."""
    if places == list(range(size)):
        return value
    rows = {place: row for row, place in enumerate(places)}
    padded = op.concatenate([value, op.zeros_like(op.strided_slice(value, [0], [1], axes=[axis]))], axis)
    from_row = [rows.get(place, len(places)) for place in range(size)]
    return op.take(padded, constant(from_row, dtype), axis)


@gradient("one_hot")
def one_hot_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The numbers on and off get the sums over their places; indices nothing."""
    indices, on, off = orig.args
    attrs = orig.attrs
    one, zero = scalar(1, orig), scalar(0, orig)
    mask = op.one_hot(indices, one, zero, attrs.depth, attrs.axis, attrs.dtype)
    by_on = op.sum(op.multiply(grad, mask))
    return [op.zeros_like(indices), op.cast_like(by_on, on), op.cast_like(op.subtract(op.sum(grad), by_on), off)]
