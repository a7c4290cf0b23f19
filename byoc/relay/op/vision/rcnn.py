"""Regions of two-stage detectors: ``vision.roi_align``, ``vision.roi_pool``, ``vision.proposal``.

A region is (image, x1, y1, x2, y2). Source: ``relay/op/vision/rcnn_op.cc``; Ren et al., "Faster R-CNN"; He et al.,
"Mask R-CNN".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import LayoutFlow, OpKind, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.window import arranged, axes_of, differ, per_axis, tensor_of

# ``max_of_parts``, ONNX's maximum: of the four weighted pixels of each place, not of their sum
ALIGN_MODES = ("avg", "max", "max_of_parts")


@dataclass(frozen=True)
class ROIAlignAttrs(Attrs):
    """Attributes of ``vision.roi_align``: a *sample_ratio* that is not positive follows from the region's size.

    *aligned*: pixels have their middle at half a pixel, and no region is widened to one pixel (ONNX's ``half_pixel``).
    """

    pooled_size: tuple[int, ...]
    spatial_scale: float
    sample_ratio: int = -1
    layout: str = "NCHW"
    mode: str = "avg"
    aligned: bool = False


@dataclass(frozen=True)
class ROIPoolAttrs(Attrs):
    """Attributes of ``vision.roi_pool``."""

    pooled_size: tuple[int, ...]
    spatial_scale: float
    layout: str = "NCHW"


@dataclass(frozen=True)
class ProposalAttrs(Attrs):
    """Attributes of ``vision.proposal``."""

    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    feature_stride: int
    threshold: float
    rpn_pre_nms_top_n: int
    rpn_post_nms_top_n: int
    rpn_min_size: int
    iou_loss: bool = False


def _pooled_type(types: Sequence[Type], attrs: ROIAlignAttrs | ROIPoolAttrs) -> TensorType:
    data, rois = tensor_of(types[0], 4, "data"), tensor_of(types[1], 2, "rois")
    if differ(rois.shape[1], 5):
        raise TypeInferenceError(f"rois must be [regions, 5], got {rois}")
    if len(attrs.pooled_size) != 2 or min(attrs.pooled_size) < 1:
        raise TypeInferenceError(f"pooled_size must be a height and a width, got {attrs.pooled_size}")
    channels = data.shape[axes_of(attrs.layout, "NCHW", "data")[1]]
    shape = arranged((rois.shape[0], channels, *attrs.pooled_size), "NCHW", attrs.layout)
    return TensorType(shape, data.dtype)


def _roi_align_rel(types: Sequence[Type], attrs: ROIAlignAttrs) -> Type:
    if attrs.mode not in ALIGN_MODES:
        raise TypeInferenceError(f"mode is one of {', '.join(ALIGN_MODES)}, got {attrs.mode!r}")
    return _pooled_type(types, attrs)


_REGIONS = np.array([[0, 1, 1, 5, 7], [1, -2, 0, 3, 9], [0, 2.5, 3.5, 3, 3.7]], "float32")
_POOL = {"pooled_size": (2, 3), "spatial_scale": 0.75}
register_op(
    "vision.roi_align",
    inputs=("data", "rois"),
    attrs=ROIAlignAttrs,
    rel=_roi_align_rel,
    traits=Traits(OpKind.OTHER, any_layout=True, layout_flow=LayoutFlow.REGIONS),
    doc="Each region as a small image: the mean or maximum of interpolated places in each of its cells.",
    samples=(
        Sample([(2, 3, 8, 7), _REGIONS], _POOL),
        Sample([(2, 3, 8, 7), _REGIONS], {**_POOL, "sample_ratio": 2}),
        Sample([(2, 8, 7, 3), _REGIONS], {**_POOL, "layout": "NHWC", "mode": "max", "sample_ratio": 2}),
        Sample([(2, 3, 8, 7), _REGIONS], {**_POOL, "aligned": True}),
        Sample([(2, 3, 8, 7), _REGIONS], {**_POOL, "aligned": True, "mode": "max_of_parts"}),
    ),
).set_support_level(5)
register_op(
    "vision.roi_pool",
    inputs=("data", "rois"),
    attrs=ROIPoolAttrs,
    rel=_pooled_type,
    traits=Traits(OpKind.OTHER, any_layout=True, layout_flow=LayoutFlow.REGIONS),
    doc="Each region as a small image: the maximum of the pixels in each of its cells.",
    samples=(Sample([(2, 3, 8, 7), _REGIONS], _POOL), Sample([(2, 8, 7, 3), _REGIONS], {**_POOL, "layout": "NHWC"})),
).set_support_level(5)


@dataclass(eq=False, repr=False)
class ROIAlignArguments(Arguments):
    """Arguments of ``roi_align``."""

    data: Operand
    rois: Operand
    pooled_size: int | Sequence[int]
    spatial_scale: float
    sample_ratio: int = -1
    layout: str = "NCHW"
    mode: str = "avg"
    aligned: bool = False


@takes_fields_of(ROIAlignArguments)
def roi_align(given: ROIAlignArguments) -> Call:
    """``T[N, C, H, W], T[regions, 5] -> T[regions, C, *pooled_size]``. Source: ``relay.vision.roi_align``.

    *aligned* and the mode ``max_of_parts`` are ONNX's RoiAlign-16.
    """
    attrs = given.attrs(
        ROIAlignAttrs,
        pooled_size=per_axis(given.pooled_size, 2, "pooled_size"),
        spatial_scale=float(given.spatial_scale),
        aligned=bool(given.aligned),
    )
    return make_call("vision.roi_align", [as_expr(given.data), as_expr(given.rois)], attrs)


def roi_pool(
    data: Operand, rois: Operand, pooled_size: int | Sequence[int], spatial_scale: float, layout: str = "NCHW"
) -> Call:
    """``T[N, C, H, W], T[regions, 5] -> T[regions, C, *pooled_size]``. Source: ``relay.vision.roi_pool``."""
    attrs = ROIPoolAttrs(per_axis(pooled_size, 2, "pooled_size"), float(spatial_scale), layout)
    return make_call("vision.roi_pool", [as_expr(data), as_expr(rois)], attrs)


def _proposal_rel(types: Sequence[Type], attrs: ProposalAttrs) -> Type:
    scores, boxes = tensor_of(types[0], 4, "cls_prob"), tensor_of(types[1], 4, "bbox_pred")
    image, anchors = tensor_of(types[2], 2, "im_info"), len(attrs.scales) * len(attrs.ratios)
    if differ(scores.shape[1], 2 * anchors) or differ(boxes.shape[1], 4 * anchors) or differ(image.shape[1], 3):
        raise TypeInferenceError(
            f"{anchors} anchors need {2 * anchors} scores, {4 * anchors} moves and (height, width, scale), got "
            f"{scores}, {boxes} and {image}"
        )
    batch = scores.shape[0]
    return TensorType((Any() if isinstance(batch, Any) else batch * attrs.rpn_post_nms_top_n, 5), scores.dtype)


register_op(
    "vision.proposal",
    inputs=("cls_prob", "bbox_pred", "im_info"),
    attrs=ProposalAttrs,
    rel=_proposal_rel,
    doc="The best regions that a network proposes, without those that overlap a better one.",
    samples=(
        Sample(
            [(2, 4, 3, 4), (2, 8, 3, 4), np.array([[48, 64, 1], [40, 60, 1]], "float32")],
            {
                "scales": (1.0, 2.0),
                "ratios": (1.0,),
                "feature_stride": 16,
                "threshold": 0.7,
                "rpn_pre_nms_top_n": 12,
                "rpn_post_nms_top_n": 5,
                "rpn_min_size": 4,
            },
            "float32",
            0.0,
            0.4,
        ),
    ),
).set_support_level(5)


@dataclass(eq=False, repr=False)
class ProposalArguments(Arguments):
    """Arguments of ``proposal``."""

    cls_prob: Operand
    bbox_pred: Operand
    im_info: Operand
    scales: Sequence[float]
    ratios: Sequence[float]
    feature_stride: int
    threshold: float
    rpn_pre_nms_top_n: int
    rpn_post_nms_top_n: int
    rpn_min_size: int
    iou_loss: bool


@takes_fields_of(ProposalArguments)
def proposal(given: ProposalArguments) -> Call:
    """``T[N, 2 A, H, W], T[N, 4 A, H, W], T[N, 3] -> T[N rpn_post_nms_top_n, 5]``. Source: ``relay.vision``."""
    attrs = given.attrs(
        ProposalAttrs,
        scales=tuple(float(s) for s in given.scales),
        ratios=tuple(float(r) for r in given.ratios),
        threshold=float(given.threshold),
        iou_loss=bool(given.iou_loss),
    )
    inputs = (given.cls_prob, given.bbox_pred, given.im_info)
    return make_call("vision.proposal", [as_expr(v) for v in inputs], attrs)
