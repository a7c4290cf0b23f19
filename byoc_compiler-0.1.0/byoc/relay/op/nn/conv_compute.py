"""Tensor expressions of convolutions and transposed convolutions in any layout.

A padded convolution has its padded data as a stage of its own (tag ``pad``), so that the sum (tag ``conv2d``) loads
without conditions: ``sum(data * weight)`` over input channel and kernel position, in this order. A transposed
convolution gathers: an input contributes where its position, undone, is a whole number inside the data. For small
strides the data is spread with zeros first, so that this sum too loads without conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from byoc import te
from byoc.ir.attrs import Attrs
from byoc.relay.op.layout import data_letters, kernel_letters
from byoc.relay.op.nn.conv_geometry import Geometry
from byoc.te import Dimension, Index, PrimExpr, Tensor
from byoc.te.expr import INDEX

ByLetter = dict[str, "PrimExpr"]
# a spread copy multiplies as many zeros as the product of the strides: above this, loads are guarded instead
MAX_SPREAD = 8


def pad_stage(data: Tensor, pads: Sequence[tuple[int, int]], value: float | int, name: str = "pad") -> Tensor:
    """*data* padded by ``(before, after)`` on each axis with *value* (tag ``pad``); itself where nothing is added."""
    if not any(map(any, pads)):
        return data
    shape = tuple(size + before + after for size, (before, after) in zip(data.shape, pads, strict=True))

    def element(*index: Index) -> PrimExpr:
        conditions, inner = [], []
        for i, size, (before, after) in zip(index, data.shape, pads, strict=True):
            inner.append(i - before)
            conditions += [i >= before] if before else []
            conditions += [i < size + before] if after else []
        return te.if_then_else(te.all_of(*conditions), data(*inner), te.const(value, data.dtype))

    return te.compute(shape, element, name=name, tag="pad")


def _meta(attrs: Attrs, geometry: Geometry) -> dict[str, object]:
    return {
        "layout": attrs.data_layout, "kernel_layout": attrs.kernel_layout, "groups": geometry.groups,
        "strides": geometry.strides, "dilation": geometry.dilation, "depthwise": geometry.is_depthwise,
    }


def _load(tensor: Tensor, layout: str, at: ByLetter) -> PrimExpr:
    return tensor(*(at[letter] for letter in layout))


def _letters(layout: str, index: Sequence[PrimExpr]) -> ByLetter:
    return dict(zip(layout, index, strict=True))


def conv_stages(data: Tensor, weight: Tensor, attrs: Attrs, geometry: Geometry) -> Tensor:
    """A convolution of *n* spatial axes; tag ``conv1d``, ``conv2d`` or ``conv3d``."""
    n = len(geometry.kernel)
    spatial = data_letters(n)[2:]
    pads = dict(zip(spatial, geometry.pads, strict=True))
    source = pad_stage(data, [pads.get(letter, (0, 0)) for letter in attrs.data_layout], 0)
    axes = [te.reduce_axis(geometry.reduced, "ic")]
    axes += [te.reduce_axis(k, f"k{letter.lower()}") for k, letter in zip(geometry.kernel, spatial, strict=True)]
    per_group, layout = geometry.out // geometry.groups, attrs.out_layout or attrs.data_layout

    def element(*index: Index) -> PrimExpr:
        out = _letters(layout, index)
        at: ByLetter = {"N": out["N"], "C": axes[0]}
        if geometry.groups > 1:
            at["C"] = (out["C"] / per_group) * geometry.reduced + axes[0]
        taps: ByLetter = {"O": out["C"], "I": axes[0]}
        if geometry.multiplier:
            taps = {"O": out["C"] / geometry.multiplier, "I": out["C"] % geometry.multiplier}
        for letter, axis, s, d in zip(spatial, axes[1:], geometry.strides, geometry.dilation, strict=True):
            at[letter], taps[letter] = out[letter] * s + axis * d, axis
        left, right = _load(source, attrs.data_layout, at), _load(weight, attrs.kernel_layout, taps)
        return te.sum(te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right), axes)

    shape = te.shape_of(geometry.result(layout))
    return te.compute(shape, element, name=f"conv{n}d", tag=f"conv{n}d", meta=_meta(attrs, geometry))


def transposed_stages(data: Tensor, weight: Tensor, attrs: Attrs, geometry: Geometry) -> Tensor:
    """A transposed convolution of *n* spatial axes; tag ``conv2d_transpose`` and so on."""
    n = len(geometry.kernel)
    spatial = kernel_letters(n)[2:]
    axes = [te.reduce_axis(geometry.reduced, "ic")]
    axes += [te.reduce_axis(k, f"k{letter.lower()}") for k, letter in zip(geometry.kernel, spatial, strict=True)]
    per_group, layout = geometry.out // geometry.groups, attrs.out_layout or attrs.data_layout
    spread = math.prod(geometry.strides) <= MAX_SPREAD
    gather = _spread_taps(data, attrs, geometry, spatial) if spread else _guarded_taps(data, geometry, spatial)

    def element(*index: Index) -> PrimExpr:
        out = _letters(layout, index)
        channel = axes[0]
        if geometry.groups > 1:
            channel = (out["C"] / per_group) * geometry.reduced + axes[0]
        source, at, taps, guard = gather(out, dict(zip(spatial, axes[1:], strict=True)))
        at.update(N=out["N"], C=channel)
        taps.update(I=channel, O=out["C"] % per_group)
        left, right = _load(source, attrs.data_layout, at), _load(weight, attrs.kernel_layout, taps)
        value = te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right)
        return te.sum(te.if_then_else(guard, value, te.const(0, geometry.dtype)), axes)

    shape = te.shape_of(geometry.result(layout))
    name = f"conv{n}d_transpose"
    return te.compute(shape, element, name=name, tag=name, meta=_meta(attrs, geometry))


# (position of the output, kernel axes) -> tensor to load, its spatial indices, the kernel's, and when they count
Taps = Callable[[ByLetter, "dict[str, Index]"], "tuple[Tensor, ByLetter, ByLetter, PrimExpr]"]


def _guarded_taps(data: Tensor, geometry: Geometry, spatial: str) -> Taps:
    """Load the data itself, where the position undone is a whole number inside it."""
    sizes = [te.dimension(d) for d in geometry.sizes]
    steps = list(zip(spatial, sizes, geometry.strides, geometry.dilation, geometry.pads, strict=True))

    def taps(out: ByLetter, axes: dict[str, Index]) -> tuple[Tensor, ByLetter, ByLetter, PrimExpr]:
        at: ByLetter = {}
        conditions: list[PrimExpr] = []
        for letter, size, s, d, (before, _) in steps:
            place = out[letter] + before - axes[letter] * d
            at[letter] = place / s
            conditions += _inside(place, size, s)
        return data, at, dict(axes), te.all_of(*conditions)

    return taps


def _spread_taps(data: Tensor, attrs: Attrs, geometry: Geometry, spatial: str) -> Taps:
    """Load a copy of the data with zeros between its elements, against the mirrored kernel: no condition in the sum."""
    kernel = dict(zip(spatial, geometry.kernel, strict=True))
    dilation = dict(zip(spatial, geometry.dilation, strict=True))
    source = _spread_stage(data, attrs, geometry, spatial)

    def taps(out: ByLetter, axes: dict[str, Index]) -> tuple[Tensor, ByLetter, ByLetter, PrimExpr]:
        at: ByLetter = {letter: out[letter] + axes[letter] * dilation[letter] for letter in spatial}
        mirrored: ByLetter = {letter: te.const(kernel[letter] - 1, INDEX) - axes[letter] for letter in spatial}
        return source, at, mirrored, te.const(True, "bool")

    return taps


def _spread_stage(data: Tensor, attrs: Attrs, geometry: Geometry, spatial: str) -> Tensor:
    """*data* with ``stride - 1`` zeros between elements and room for every tap of the kernel around (tag ``pad``)."""
    result = dict(zip(attrs.data_layout, te.shape_of(geometry.result(attrs.data_layout)), strict=True))
    sizes = {letter: te.dimension(d) for letter, d in zip(spatial, geometry.sizes, strict=True)}
    steps = {
        letter: (s, (k - 1) * d, before)
        for letter, s, k, d, (before, _) in zip(
            spatial, geometry.strides, geometry.kernel, geometry.dilation, geometry.pads, strict=True
        )
    }
    shape = [
        result[letter] + steps[letter][1] if letter in steps else size
        for letter, size in zip(attrs.data_layout, data.shape, strict=True)
    ]

    def element(*index: Index) -> PrimExpr:
        inner, conditions = [], []
        for letter, i in zip(attrs.data_layout, index, strict=True):
            stride, reach, before = steps.get(letter, (1, 0, 0))
            place = i + (before - reach)
            inner.append(place / stride)
            conditions += _inside(place, sizes[letter], stride) if letter in steps else []
        return te.if_then_else(te.all_of(*conditions), data(*inner), te.const(0, data.dtype))

    return te.compute(shape, element, name="spread", tag="pad")


def _inside(place: PrimExpr, size: Dimension, stride: int) -> list[PrimExpr]:
    """The conditions under which *place* is a whole number of strides inside *size* elements."""
    whole = [(place % stride).equal(0)] if stride > 1 else []
    return [place >= 0, place < size * stride, *whole]
