"""Gradients of operators that move elements and keep them all, and of those that make constants."""

from __future__ import annotations

from byoc.annex.gradients.rules.rules import axes_of, gradient, scalar, shape, tensor
from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.relay import op
from byoc.relay.expr import Call, Tuple, TupleGetItem
from byoc.relay.narrowing import tuple_type
from byoc.relay.op import nn
from byoc.runtime.kernels.movement.transform import VIEWS


@gradient(*VIEWS)
def reshape_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad in the shape of the argument."""
    return [op.reshape_like(grad, orig.args[0])]


@gradient("reshape_like")
def reshape_like_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad in the shape of the first argument; nothing for the second, which gave the shape."""
    data, like = orig.args
    return [op.reshape_like(grad, data), op.zeros_like(like)]


@gradient("transpose")
def transpose_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad with the axes moved back."""
    axes, ndim = orig.attrs.axes, tensor(orig.args[0]).ndim
    if axes is None or len(axes) == 0:
        return [op.transpose(grad)]
    moved = [int(a) % ndim for a in axes]
    return [op.transpose(grad, [moved.index(a) for a in range(ndim)])]


@gradient("reverse")
def reverse_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad reversed."""
    return [op.reverse(grad, orig.attrs.axis)]


@gradient("layout_transform")
def layout_transform_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad in the layout of the argument."""
    attrs = orig.attrs
    return [op.layout_transform(grad, attrs.dst_layout, attrs.src_layout)]


@gradient("broadcast_to", "broadcast_to_like")
def broadcast_to_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad summed over what was broadcast; nothing for what gave the shape."""
    data, *rest = orig.args
    return [op.collapse_sum_like(grad, data), *map(op.zeros_like, rest)]


@gradient("collapse_sum_to", "collapse_sum_like")
def collapse_sum_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad broadcast over what was summed; nothing for what gave the shape."""
    data, *rest = orig.args
    return [op.broadcast_to_like(grad, data), *map(op.zeros_like, rest)]


def _fields(value: RelayExpr) -> list[RelayExpr]:
    """The fields of a tuple argument."""
    if isinstance(value, Tuple):
        return list(value.fields)
    fields: list[RelayExpr] = []
    for index, ty in enumerate(tuple_type(value).fields):
        field = TupleGetItem(value, index)
        field._checked_type = ty
        fields.append(field)
    return fields


@gradient("concatenate")
def concatenate_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """A slice of grad for each tensor."""
    fields = _fields(orig.args[0])
    axis = orig.attrs.axis % tensor(orig).ndim
    parts, start = [], 0
    for field in fields:
        stop = start + shape(field)[axis]
        parts.append(op.strided_slice(grad, [start], [stop], axes=[axis]))
        start = stop
    return [Tuple(parts)]


@gradient("stack")
def stack_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """A slice of grad for each tensor."""
    axis = orig.attrs.axis % tensor(orig).ndim
    count = len(_fields(orig.args[0]))
    slices = (op.strided_slice(grad, [k], [k + 1], axes=[axis]) for k in range(count))
    return [Tuple([op.squeeze(part, [axis]) for part in slices])]


@gradient("split")
def split_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The gradients of the parts, joined."""
    return [op.concatenate(grad, orig.attrs.axis)]


@gradient("tile")
def tile_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum over the copies."""
    sizes, reps = list(shape(orig.args[0])), [int(r) for r in orig.attrs.reps]
    rank = max(len(sizes), len(reps))
    sizes, reps = [1] * (rank - len(sizes)) + sizes, [1] * (rank - len(reps)) + reps
    apart = op.reshape(grad, [n for pair in zip(reps, sizes, strict=True) for n in pair])
    return [op.reshape_like(op.sum(apart, axis=list(range(0, 2 * rank, 2))), orig.args[0])]


@gradient("repeat")
def repeat_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum over the copies."""
    sizes, attrs = list(shape(orig.args[0])), orig.attrs
    axis = attrs.axis % len(sizes)
    apart = op.reshape(grad, [*sizes[: axis + 1], attrs.repeats, *sizes[axis + 1 :]])
    return [op.sum(apart, axis=axis + 1)]


@gradient("nn.pad")
def pad_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """What was inside; the padding's number gets the rest. Raises UserError for a padding that is not constant."""
    data, value = orig.args
    attrs = orig.attrs
    if attrs.pad_mode != "constant":
        raise UserError(f"nn.pad with pad_mode {attrs.pad_mode!r} has no gradient")
    cut = [tuple(max(-int(w), 0) for w in pair) for pair in attrs.pad_width]
    begin = [max(int(pair[0]), 0) for pair in attrs.pad_width]
    end = [b + n - sum(off) for b, n, off in zip(begin, shape(data), cut, strict=True)]
    inside = op.strided_slice(grad, begin, end)
    rest = op.reshape_like(op.subtract(op.sum(grad), op.sum(inside)), value)
    return [nn.pad(inside, cut) if any(map(any, cut)) else inside, rest]


@gradient("zeros", "ones")
def constant_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """Nothing for shapes."""
    return [op.zeros_like(arg) for arg in orig.args]


@gradient("full")
def full_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum for the number."""
    return [op.cast_like(op.sum(grad), orig.args[0])]


@gradient("arange")
def arange_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum for the start, 0 for the end, the sum weighed with the places for the step."""
    start, stop, step = orig.args
    count = shape(orig)[0]
    places = op.arange(scalar(0, orig), scalar(count, orig), scalar(1, orig), tensor(orig).dtype)
    weighed = op.sum(op.multiply(grad, places))
    return [op.cast_like(op.sum(grad), start), op.zeros_like(stop), op.cast_like(weighed, step)]


@gradient("nn.bias_add")
def bias_add_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """grad, and its sum over all axes but the bias's."""
    axis = axes_of(orig.attrs.axis, tensor(orig).ndim)
    return [grad, op.sum(grad, axis=axis, exclude=True)]


@gradient("nn.dropout")
def dropout_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """Elements that stayed get their gradient, scaled as they were: the mask is the second field of the result."""
    kept = TupleGetItem(orig, 1)
    return [op.multiply(TupleGetItem(grad, 0) if not isinstance(grad, Tuple) else grad.fields[0], kept)]


@gradient("nn.upsampling")
def upsampling_grad(orig: Call, grad: RelayExpr) -> list[RelayExpr]:
    """The sum over the copies. Raises UserError but for whole factors, nearest neighbours and NCHW."""
    attrs = orig.attrs
    factors = (attrs.scale_h, attrs.scale_w)
    whole = all(float(f).is_integer() for f in factors)
    if not whole or attrs.method != "nearest_neighbor" or attrs.layout != "NCHW":
        raise UserError("nn.upsampling has a gradient for whole factors, nearest_neighbor and NCHW only")
    size = tuple(int(f) for f in factors)
    mean = nn.avg_pool2d(grad, pool_size=size, strides=size)
    return [op.multiply(mean, scalar(float(size[0] * size[1]), orig))]
