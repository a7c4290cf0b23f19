"""Tensor expressions of normalisations: the mean, the mean of squared deviations, and a stage that applies them.

The reductions have tag ``reduce`` and run in at least float32; the last stage is elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from byoc import te
from byoc.ir.types import Type
from byoc.relay.op.core.indexing import ZERO, size_of
from byoc.relay.op.nn.pool_compute import sum_dtype
from byoc.te import Index, PrimExpr, Tensor

if TYPE_CHECKING:
    from byoc.relay.op.attributes.norm import (
        BatchNormAttrs,
        GroupNormAttrs,
        InstanceNormAttrs,
        L2NormalizeAttrs,
        LayerNormAttrs,
        LRNAttrs,
    )

    NormAttrs: TypeAlias = BatchNormAttrs | InstanceNormAttrs | LayerNormAttrs | GroupNormAttrs


def batch_norm_stages(attrs: BatchNormAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """The normalised data, and the two moments as they came."""
    data, gamma, beta, mean, variance = inputs
    axis = attrs.axis % data.ndim

    def element(*index: Index) -> PrimExpr:
        c = index[axis]
        value = (data(*index) - mean(c)) / te.sqrt(variance(c) + attrs.epsilon)
        return _scaled(value, c, gamma, beta, attrs)

    moments = [te.compute(t.shape, lambda i, t=t: t(i), name=name) for t, name in ((mean, "mean"), (variance, "var"))]
    return [te.compute(data.shape, element, name="batch_norm"), *moments]


def _scaled(value: PrimExpr, channel: PrimExpr, gamma: Tensor, beta: Tensor, attrs: NormAttrs) -> PrimExpr:
    if attrs.scale:
        value = value * te.cast(value.dtype, gamma(channel))
    return value + te.cast(value.dtype, beta(channel)) if attrs.center else value


# from so many terms on a sum over several axes is made in two steps: rounding grows with the length of a chain
LONG_SUM = 4096


def mean_over(data: Tensor, over: Sequence[int], centre: Tensor | None, name: str) -> Tensor:
    """The mean of *data* over axes, which stay as 1; with *centre*, the mean of its squared distance from that."""
    dtype, count = sum_dtype(data.dtype), size_of([data.shape[k] for k in over])

    def term(index: Sequence[PrimExpr]) -> PrimExpr:
        value = te.cast(dtype, data(*index))
        if centre is None:
            return value
        value = value - centre(*(ZERO if k in over else i for k, i in enumerate(index)))
        return value * value

    if len(over) > 1 and isinstance(count, int) and count >= LONG_SUM:
        rows = _sum_over(data.shape, over[-1:], term, f"{name}_rows")
        total = _sum_over(rows.shape, over[:-1], lambda index: rows(*index), f"{name}_sum")
    else:
        total = _sum_over(data.shape, over, term, f"{name}_sum")
    divisor = te.const(count, dtype) if isinstance(count, int) else te.cast(dtype, count)
    return te.compute(total.shape, lambda *index: total(*index) / divisor, name=name)


def _sum_over(
    shape: Sequence[te.Dimension], over: Sequence[int], term: Callable[[Sequence[PrimExpr]], PrimExpr], name: str
) -> Tensor:
    """The sum of *term* over axes of *shape*, which stay as 1."""
    axes = {k: te.reduce_axis(shape[k], f"r{k}") for k in over}

    def element(*index: Index) -> PrimExpr:
        return te.sum(term([axes.get(k, i) for k, i in enumerate(index)]), list(axes.values()))

    return te.compute([1 if k in axes else d for k, d in enumerate(shape)], element, name=name, tag="reduce")


def _normalised(attrs: NormAttrs, inputs: Sequence[Tensor], over: Sequence[int], axis: int, name: str) -> list[Tensor]:
    data, gamma, beta = inputs
    mean = mean_over(data, over, None, "mean")
    variance = mean_over(data, over, mean, "variance")

    def element(*index: Index) -> PrimExpr:
        at = [ZERO if k in over else i for k, i in enumerate(index)]
        value = (te.cast(mean.dtype, data(*index)) - mean(*at)) / te.sqrt(variance(*at) + attrs.epsilon)
        return te.cast(data.dtype, _scaled(value, index[axis], gamma, beta, attrs))

    return [te.compute(data.shape, element, name=name)]


def layer_norm_compute(attrs: LayerNormAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """Layer norm in five stages."""
    axis = attrs.axis % inputs[0].ndim
    return _normalised(attrs, inputs, (axis,), axis, "layer_norm")


def instance_norm_compute(attrs: InstanceNormAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """Instance norm in five stages."""
    ndim = inputs[0].ndim
    axis = attrs.axis % ndim
    return _normalised(attrs, inputs, tuple(k for k in range(1, ndim) if k != axis), axis, "instance_norm")


def group_norm_compute(attrs: GroupNormAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """Group norm: the data with its channels split in two axes, normalised, and put together again."""
    data, gamma, beta = inputs
    axis = attrs.axis % data.ndim
    size = data.shape[axis] // attrs.num_groups
    shape = [*data.shape[:axis], attrs.num_groups, size, *data.shape[axis + 1 :]]
    split = te.compute(
        shape, lambda *i: data(*i[:axis], i[axis] * size + i[axis + 1], *i[axis + 2 :]), name="group_split"
    )
    over = tuple(k for k in range(1, split.ndim) if k != axis)
    mean = mean_over(split, over, None, "mean")
    variance = mean_over(split, over, mean, "variance")

    def element(*index: Index) -> PrimExpr:
        at = [*index[:axis], index[axis] / size, ZERO, *index[axis + 1 :]]
        at = [ZERO if k in over else i for k, i in enumerate(at)]
        value = (te.cast(mean.dtype, data(*index)) - mean(*at)) / te.sqrt(variance(*at) + attrs.epsilon)
        return te.cast(data.dtype, _scaled(value, index[axis], gamma, beta, attrs))

    return [te.compute(data.shape, element, name="group_norm")]


def lrn_compute(attrs: LRNAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """The sum of squares of the neighbours, then the division by its power."""
    data = inputs[0]
    axis, half, dtype = attrs.axis % data.ndim, attrs.size // 2, sum_dtype(data.dtype)
    near = te.reduce_axis(attrs.size, "near")

    def square(*index: Index) -> PrimExpr:
        place = index[axis] + near - half
        value = te.cast(dtype, data(*index[:axis], place, *index[axis + 1 :]))
        inside = te.all_of(place >= 0, place < data.shape[axis])
        return te.sum(te.if_then_else(inside, value * value, te.const(0, dtype)), near)

    total = te.compute(data.shape, square, name="lrn_sum", tag="reduce")

    def element(*index: Index) -> PrimExpr:
        base = total(*index) * (attrs.alpha / attrs.size) + attrs.bias
        return te.cast(data.dtype, te.cast(dtype, data(*index)) / te.power(base, te.const(attrs.beta, dtype)))

    return [te.compute(data.shape, element, name="lrn")]


def l2_normalize_compute(attrs: L2NormalizeAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
    """The sum of squares, then the division by its root."""
    data = inputs[0]
    dtype = sum_dtype(data.dtype)
    over = {a % data.ndim for a in attrs.axis} or set(range(data.ndim))
    axes = {k: te.reduce_axis(data.shape[k], f"r{k}") for k in sorted(over)}

    def square(*index: Index) -> PrimExpr:
        value = te.cast(dtype, data(*(axes.get(k, i) for k, i in enumerate(index))))
        return te.sum(value * value, list(axes.values()))

    shape = [1 if k in axes else d for k, d in enumerate(data.shape)]
    total = te.compute(shape, square, name="l2_sum", tag="reduce")

    def element(*index: Index) -> PrimExpr:
        at = [ZERO if k in axes else i for k, i in enumerate(index)]
        return te.cast(data.dtype, te.cast(dtype, data(*index)) / te.sqrt(te.maximum(total(*at), attrs.eps)))

    return [te.compute(data.shape, element, name="l2_normalize")]
