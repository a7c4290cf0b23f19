"""Tensor expressions of convolutions in any layout.

A padded convolution has its padded data as a stage of its own (tag ``pad``), so that the sum (tag ``conv2d``) loads
without conditions: ``sum(data * weight)`` over input channel and kernel position, in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from byoc import te
from byoc.relay.op.core.window import data_letters
from byoc.relay.op.nn.convolution.geometry import Geometry
from byoc.te import Index, PrimExpr, Tensor

if TYPE_CHECKING:
    from byoc.relay.op.attributes.convolution import ConvAttrs, TransposedAttrs

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


def meta_of(attrs: ConvAttrs | TransposedAttrs, geometry: Geometry) -> dict[str, object]:
    """What a schedule may want to know of a convolution."""
    return {
        "layout": attrs.data_layout,
        "kernel_layout": attrs.kernel_layout,
        "groups": geometry.groups,
        "strides": geometry.strides,
        "dilation": geometry.dilation,
        "depthwise": geometry.is_depthwise,
    }


def load_at(tensor: Tensor, layout: str, at: ByLetter) -> PrimExpr:
    """The element of *tensor* at a position for each letter of its *layout*."""
    return tensor(*(at[letter] for letter in layout))


def by_letter(layout: str, index: Sequence[PrimExpr]) -> ByLetter:
    """*index* by the letters of *layout*."""
    return dict(zip(layout, index, strict=True))


def conv_stages(data: Tensor, weight: Tensor, attrs: ConvAttrs | TransposedAttrs, geometry: Geometry) -> Tensor:
    """A convolution of *n* spatial axes; tag ``conv1d``, ``conv2d`` or ``conv3d``."""
    n = len(geometry.kernel)
    spatial = data_letters(n)[2:]
    pads = dict(zip(spatial, geometry.pads, strict=True))
    source = pad_stage(data, [pads.get(letter, (0, 0)) for letter in attrs.data_layout], 0)
    axes = [te.reduce_axis(te.dimension(geometry.reduced), "ic")]
    axes += [te.reduce_axis(k, f"k{letter.lower()}") for k, letter in zip(geometry.kernel, spatial, strict=True)]
    per_group, layout = te.dimension(geometry.out) // geometry.groups, attrs.out_layout or attrs.data_layout

    def element(*index: Index) -> PrimExpr:
        out = by_letter(layout, index)
        at: ByLetter = {"N": out["N"], "C": axes[0]}
        if geometry.groups > 1:
            at["C"] = (out["C"] / per_group) * te.dimension(geometry.reduced) + axes[0]
        taps: ByLetter = {"O": out["C"], "I": axes[0]}
        if geometry.multiplier:
            taps = {"O": out["C"] / geometry.multiplier, "I": out["C"] % geometry.multiplier}
        for letter, axis, s, d in zip(spatial, axes[1:], geometry.strides, geometry.dilation, strict=True):
            at[letter], taps[letter] = out[letter] * s + axis * d, axis
        left, right = load_at(source, attrs.data_layout, at), load_at(weight, attrs.kernel_layout, taps)
        return te.sum(te.cast(geometry.dtype, left) * te.cast(geometry.dtype, right), axes)

    shape = te.shape_of(geometry.result(layout))
    return te.compute(shape, element, name=f"conv{n}d", tag=f"conv{n}d", meta=meta_of(attrs, geometry))
