"""Tensor expressions of pools in any layout: a fold over each window (tag ``pool`` or ``reduce``), then a division.

Means of integers are rounded toward zero. Loads outside the data are guarded by conditions, which stand only on the
sides where a window can reach out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from byoc import te
from byoc.ir.types import TensorType
from byoc.relay.op.core.indexing import ZERO, as_index
from byoc.relay.op.core.window import pad_pairs, per_axis, spatial_letters
from byoc.relay.op.pointwise.binary import truncated_divide
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import INDEX, Dimension

if TYPE_CHECKING:
    from byoc.relay.op.attributes.pool import MaxPoolAttrs

_FLOATS = ("float16", "float32", "float64")


def lowest(dtype: str) -> PrimExpr:
    """The least value of *dtype*."""
    value = -math.inf if "float" in dtype else 0 if dtype == "bool" else int(np.iinfo(dtype).min)
    return te.const(value, dtype)


def least_finite(dtype: str) -> PrimExpr:
    """The least value of *dtype* that is no infinity."""
    return te.const(float(np.finfo(dtype).min), dtype) if dtype in _FLOATS else lowest(dtype)


def sum_dtype(dtype: str) -> str:
    """The dtype in which sums over *dtype* are made: float32 for the short floats, itself otherwise."""
    return "float32" if dtype in ("float16", "bfloat16") else dtype


class _Windows:
    """The sliding windows of one pool: sizes by axis, and where an output's window lies."""

    def __init__(self, data: Tensor, attrs: MaxPoolAttrs, out_type: TensorType):
        n = data.ndim - 2
        self.data, self.layout, self.letters = data, attrs.layout, spatial_letters(n)
        self.out_layout = attrs.out_layout or attrs.layout
        self.strides, self.dilation = per_axis(attrs.strides, n, "strides"), per_axis(attrs.dilation, n, "dilation")
        self.pads = pad_pairs(attrs.padding, n)
        self.shape = te.shape_of(out_type)
        self.sizes = [data.shape[self.layout.index(letter)] for letter in self.letters]
        kernel = per_axis(attrs.pool_size, n, "pool_size")
        self.kernel = [self.within(k, kernel[k]) for k in range(n)]
        self.outs = [self.shape[self.out_layout.index(letter)] for letter in self.letters]

    def within(self, k: int, kernel: int) -> int:
        """The part of a window of axis *k* that some output can have inside the data and its padding."""
        size = self.sizes[k]
        if not isinstance(size, int):
            return kernel
        return min(kernel, max(1, (size + sum(self.pads[k]) - 1) // self.dilation[k] + 1))

    def sees_only_padding(self) -> bool:
        """Whether a window can lie in the padding alone: Relay gives the least finite value there."""
        return any(max(p) > (k - 1) * d for p, k, d in zip(self.pads, self.kernel, self.dilation, strict=True))

    def start(self, index: Sequence[PrimExpr], k: int) -> PrimExpr:
        """Where the window of an output begins along spatial axis *k*, less the padding."""
        return index[self.out_layout.index(self.letters[k])] * self.strides[k] - self.pads[k][0]

    def reaches_over(self, k: int, end: Dimension) -> bool:
        """True unless the last window of axis *k* is known to end before *end*."""
        count = self.outs[k]
        if not isinstance(count, int) or not isinstance(end, int):
            return True
        last = (count - 1) * self.strides[k] - self.pads[k][0] + self.dilation[k] * (self.kernel[k] - 1)
        return last >= end

    def fold(self, kind: str, fill: PrimExpr, dtype: str) -> Tensor:
        """The fold of every window; *fill* stands for what lies outside the data."""
        axes = [te.reduce_axis(k, f"k{letter.lower()}") for k, letter in zip(self.kernel, self.letters, strict=True)]

        def element(*index: Index) -> PrimExpr:
            at: dict[str, PrimExpr] = dict(zip(self.out_layout, index, strict=True))
            conditions: list[PrimExpr] = []
            for k, letter in enumerate(self.letters):
                at[letter] = self.start(index, k) + axes[k] * self.dilation[k]
                conditions += [at[letter] >= 0] if self.pads[k][0] else []
                conditions += [at[letter] < self.sizes[k]] if self.reaches_over(k, self.sizes[k]) else []
            value = te.cast(dtype, self.data(*(at[letter] for letter in self.layout)))
            result: PrimExpr = getattr(te, kind)(te.if_then_else(te.all_of(*conditions), value, fill), axes)
            return result

        return te.compute(
            self.shape,
            element,
            name=f"{kind}_pool",
            tag="pool",
            meta={
                "layout": self.layout,
                "strides": self.strides,
                "dilation": self.dilation,
                "kernel": self.kernel,
            },
        )

    def count(self, index: Sequence[PrimExpr], k: int, include_pad: bool) -> PrimExpr:
        """How many elements a window counts along axis *k*."""
        d, kernel = self.dilation[k], te.const(self.kernel[k], INDEX)
        end = self.sizes[k] + self.pads[k][1] if include_pad else self.sizes[k]
        first: PrimExpr = ZERO
        last: PrimExpr = kernel
        if not include_pad and self.pads[k][0]:
            first = te.maximum(ZERO, (d - 1 - self.start(index, k)) // d)
        if self.reaches_over(k, end):
            last = te.minimum(kernel, (as_index(end) - self.start(index, k) + (d - 1)) // d)
        return te.maximum(last - first, 1) if first is not ZERO or last is not kernel else kernel


def max_stages(data: Tensor, attrs: MaxPoolAttrs, out_type: TensorType) -> Tensor:
    """A maximum pool: one stage of tag ``pool``."""
    windows = _Windows(data, attrs, out_type)
    fill = least_finite(data.dtype) if windows.sees_only_padding() else lowest(data.dtype)
    return windows.fold("max", fill, data.dtype)


def avg_stages(data: Tensor, attrs: MaxPoolAttrs, include_pad: bool, out_type: TensorType) -> Tensor:
    """An average pool: the sum of each window (tag ``pool``), then its division by the count."""
    dtype = sum_dtype(data.dtype)
    windows = _Windows(data, attrs, out_type)
    total = windows.fold("sum", te.const(0, dtype), dtype)

    def element(*index: Index) -> PrimExpr:
        count: PrimExpr = te.const(1, INDEX)
        for k in range(len(windows.kernel)):
            count = count * windows.count(index, k, include_pad)
        return te.cast(data.dtype, truncated_divide(total(*index), te.cast(dtype, count)))

    return te.compute(total.shape, element, name="avg_pool")


def adaptive_stages(data: Tensor, layout: str, out_layout: str, mean: bool, out_type: TensorType) -> Tensor:
    """A pool whose windows share each axis out evenly: ``[i * size / out, ceil((i + 1) * size / out))``.

    A global pool (tag ``reduce``) is that with one output per axis.
    """
    letters, out_layout = spatial_letters(data.ndim - 2), out_layout or layout
    shape, dtype = te.shape_of(out_type), sum_dtype(data.dtype) if mean else data.dtype
    sizes = [data.shape[layout.index(letter)] for letter in letters]
    outs = [shape[out_layout.index(letter)] for letter in letters]
    whole = all(isinstance(o, int) and o == 1 for o in outs)
    axes = [te.reduce_axis(_reach(s, o), f"r{c.lower()}") for s, o, c in zip(sizes, outs, letters, strict=True)]

    def bounds(index: PrimExpr, size: Dimension, out: Dimension) -> tuple[PrimExpr, PrimExpr]:
        if isinstance(out, int) and out == 1:
            return ZERO, as_index(size)
        return index * size // out, ((index + 1) * size + (out - 1)) // out

    def element(*index: Index) -> PrimExpr:
        at: dict[str, PrimExpr] = dict(zip(out_layout, index, strict=True))
        conditions: list[PrimExpr] = []
        for axis, letter, size, out in zip(axes, letters, sizes, outs, strict=True):
            first, end = bounds(at[letter], size, out)
            at[letter] = first + axis
            even = isinstance(size, int) and isinstance(out, int) and size % out == 0
            conditions += [] if even or (isinstance(out, int) and out == 1) else [at[letter] < end]
        value = te.cast(dtype, data(*(at[letter] for letter in layout)))
        fill = te.const(0, dtype) if mean else lowest(dtype)
        value = te.if_then_else(te.all_of(*conditions), value, fill)
        return te.sum(value, axes) if mean else te.max(value, axes)

    total = te.compute(shape, element, name="pool_sum" if mean else "pool_max", tag="reduce" if whole else "pool")
    if not mean:
        return total

    def divided(*index: Index) -> PrimExpr:
        at: dict[str, PrimExpr] = dict(zip(out_layout, index, strict=True))
        count: PrimExpr = te.const(1, INDEX)
        for letter, size, out in zip(letters, sizes, outs, strict=True):
            first, end = bounds(at[letter], size, out)
            count = count * (end - first)
        return te.cast(data.dtype, truncated_divide(total(*index), te.cast(dtype, count)))

    return te.compute(shape, divided, name="pool_mean")


def _reach(size: Dimension, out: Dimension) -> Dimension:
    """The longest window that shares *size* out to *out*."""
    if isinstance(size, int) and isinstance(out, int):
        return max(-(-(i + 1) * size // out) - i * size // out for i in range(out))
    if isinstance(out, int) and out == 1:
        return size
    return as_index(size) // out + 2
