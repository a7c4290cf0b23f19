"""FlattenAtrousConv: space_to_batch_nd, conv2d, batch_to_space_nd in a row are one dilated convolution.

A convolution of stride 1 on every block-th element, put together again, reads its taps a block apart: block *b* and
dilation *d* make dilation ``b d``. With *P* the padding of the space, *C* what is cropped from the result and *p* the
padding of the convolution, the padding becomes ``P - C + b p`` on either side; where that is negative, or the blocks or
the fill values differ, nothing is changed. Source: ``relay.transform.FlattenAtrousConv``.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.ir.span import merge_spans
from byoc.ir.traits import ProductForm
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant
from byoc.relay.narrowing import operator_of
from byoc.relay.op.attributes.convolution import Conv2DAttrs
from byoc.relay.transform.base.call_rules import call_rule_pass
from byoc.relay.transform.base.infer_type import FunctionPass

if TYPE_CHECKING:
    from byoc.relay.op.nn.batch_blocks import BatchToSpaceNDAttrs, SpaceToBatchNDAttrs


def _fill_value(conv: Call) -> float | None:
    """What the convolution pads with: 0, or the zero point of quantized data; None where that is not known."""
    if not operator_of(conv).traits.quantized:
        return 0.0
    zero_point = conv.args[2]
    if isinstance(zero_point, Constant) and zero_point.data.ndim == 0:
        return float(zero_point.data.numpy())
    return None


def _spatial_axes(layout: str) -> tuple[int, ...]:
    return tuple(layout.index(letter) for letter in "HW")


def _dilated(spread: SpaceToBatchNDAttrs, conv: Conv2DAttrs, joined: BatchToSpaceNDAttrs) -> Attrs | None:
    """The attributes of the one convolution; None where there is none. Blocks run over the axes after the batch."""
    blocks, pads, crops = spread.block_shape, spread.paddings, joined.crops
    if blocks != joined.block_shape or len(blocks) != 2 or any(s != 1 for s in conv.strides):
        return None
    # blocks, paddings and crops are given for axes 1 and 2 of the data: these must be H and W
    layout = conv.data_layout
    if conv.out_layout not in ("", layout) or _spatial_axes(str(layout)) != (1, 2):
        return None
    sides = [
        [p - c + b * own for p, c, own in zip(pad, crop, (conv.padding[k], conv.padding[k + 2]), strict=True)]
        for k, (b, pad, crop) in enumerate(zip(blocks, pads, crops, strict=True))
    ]
    if min(map(min, sides)) < 0:
        return None
    padding = (sides[0][0], sides[1][0], sides[0][1], sides[1][1])
    dilation = tuple(b * d for b, d in zip(blocks, conv.dilation, strict=True))
    return replace(conv, padding=padding, dilation=dilation)


def flatten_batch_to_space(before: Call, after: Call) -> RelayExpr:
    """``batch_to_space_nd(conv2d(space_to_batch_nd(x), w))`` as one convolution where that is exact."""
    conv = after.args[0]
    if not isinstance(conv, Call) or not isinstance(conv.op, Op):
        return after
    if conv.op.traits.product is not ProductForm.CONVOLUTION or len(conv.attrs.strides) != 2:
        return after
    spread = conv.args[0]
    if not calls(spread, "nn.space_to_batch_nd"):
        return after
    fill = _fill_value(conv)
    has_padding = any(map(any, spread.attrs["paddings"]))
    if has_padding and fill != float(spread.attrs["pad_value"]):
        return after
    attrs = _dilated(spread.attrs, conv.attrs, after.attrs)
    if attrs is None:
        return after
    span = merge_spans([spread.span, conv.span, before.span])
    return Call(conv.op, [spread.args[0], *conv.args[1:]], attrs, conv.type_args, span)


LAW = Law("a convolution between space_to_batch and batch_to_space is one with dilation", Numbers.ROUNDING)


def FlattenAtrousConv() -> FunctionPass:
    """The pass that makes dilated convolutions of those that were spread over the batch."""
    return call_rule_pass("FlattenAtrousConv", 3, {"nn.batch_to_space_nd": flatten_batch_to_space}, LAW)
