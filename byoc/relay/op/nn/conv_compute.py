"""Tensor expressions of convolutions and transposed convolutions in any layout.

A padded convolution has its padded data as a stage of its own (tag ``pad``), so that the sum (tag ``conv2d``) loads
without conditions: ``sum(data * weight)`` over input channel and kernel position, in this order. A transposed
convolution gathers: an input contributes where its position, undone, is a whole number inside the data.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc import te
from byoc.ir.attrs import Attrs
from byoc.relay.op.layout import data_letters, kernel_letters
from byoc.relay.op.nn.conv_geometry import Geometry
from byoc.te import Index, PrimExpr, Tensor

ByLetter = dict[str, "PrimExpr"]


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
    sizes = [te.dimension(d) for d in geometry.sizes]
    steps = list(zip(spatial, axes[1:], sizes, geometry.strides, geometry.dilation, geometry.pads, strict=True))

    def element(*index: Index) -> PrimExpr:
        out = _letters(layout, index)
        channel = axes[0]
        if geometry.groups > 1:
            channel = (out["C"] / per_group) * geometry.reduced + axes[0]
        at: ByLetter = {"N": out["N"], "C": channel}
        taps: ByLetter = {"I": channel, "O": out["C"] % per_group}
        conditions: list[PrimExpr] = []
        for letter, axis, size, s, d, (before, _) in steps:
            place = out[letter] + before - axis * d
            at[letter], taps[letter] = place / s, axis
            conditions += [place >= 0, place < size * s]
            conditions += [(place % s).equal(0)] if s > 1 else []
        left, right = _load(data, attrs.data_layout, at), _load(weight, attrs.kernel_layout, taps)
        value = te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right)
        return te.sum(te.if_then_else(te.all_of(*conditions), value, te.const(0, geometry.dtype)), axes)

    shape = te.shape_of(geometry.result(layout))
    name = f"conv{n}d_transpose"
    return te.compute(shape, element, name=name, tag=name, meta=_meta(attrs, geometry))
