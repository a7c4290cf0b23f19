"""``vision.yolo_reorg``: Darknet's rearrangement of pixels into channels. Source: ``relay.vision.yolo_reorg``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.size_var import SizeExpr, parted, times
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.window import tensor_of


@dataclass(frozen=True)
class YoloReorgAttrs(Attrs):
    """Attributes of ``vision.yolo_reorg``."""

    stride: int = 1
    layout: str = "NCHW"


def _relation(types: Sequence[Type], attrs: YoloReorgAttrs) -> Type:
    data, s = tensor_of(types[0], 4, "data"), attrs.stride
    if s < 1 or not all(isinstance(d, (int, SizeExpr)) for d in data.shape[1:]):
        raise TypeInferenceError(f"takes a positive stride and data of a known size, got {s} and {data}")
    batch, channels, height, width = data.shape
    parts = ((channels, s * s), (height, s), (width, s))
    if any(isinstance(size, int) and size % count for size, count in parts):
        raise TypeInferenceError(f"{data} cannot be divided by a stride of {s}")
    return TensorType((batch, times(channels, s * s), parted(height, s), parted(width, s)), data.dtype)


register_op(
    "vision.yolo_reorg",
    inputs=("data",),
    attrs=YoloReorgAttrs,
    rel=_relation,
    pattern=OpPattern.INJECTIVE,
    doc="Pixels moved into channels as Darknet does it.",
    operations=lambda attrs, types, out: 0,
    samples=(Sample([(1, 8, 4, 6)], {"stride": 2}), Sample([(2, 9, 3, 3)], {"stride": 3})),
).set_support_level(5)


def yolo_reorg(data: Operand, stride: int) -> Call:
    """``T[N, C, H, W] -> T[N, C s s, H / s, W / s]``. Source: ``relay.vision.yolo_reorg``."""
    return make_call("vision.yolo_reorg", [as_expr(data)], YoloReorgAttrs(int(stride)))
