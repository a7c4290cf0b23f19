"""Suppression of boxes that overlap a better one. Source: ``relay/op/vision/nms.cc``.

Limits and thresholds are inputs, as in Relay, since they may be known only at run time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import differ, tensor_of
from byoc.relay.tuple_wrapper import TupleWrapper

OUTPUT_FORMATS = ("onnx", "tensorflow")


@dataclass(frozen=True)
class GetValidCountsAttrs(Attrs):
    """Attributes of ``vision.get_valid_counts``: where class (below 0: none) and score stand in a box."""

    id_index: int = 0
    score_index: int = 1


@dataclass(frozen=True)
class NonMaximumSuppressionAttrs(Attrs):
    """Attributes of ``vision.non_max_suppression``."""

    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False


@dataclass(frozen=True)
class AllClassNonMaximumSuppressionAttrs(Attrs):
    """Attributes of ``vision.all_class_non_max_suppression``."""

    output_format: str = "onnx"


@dataclass(frozen=True)
class RegularNonMaximumSuppressionAttrs(Attrs):
    """Attributes of ``vision.regular_non_max_suppression``."""

    max_detections_per_class: int = 100
    max_detections: int = 100
    num_classes: int = 1
    iou_threshold: float = 0.5
    score_threshold: float = 0.0


def _scalars(types: Sequence[Type], first: int, names: Sequence[str]) -> None:
    for k, name in enumerate(names, first):
        if any(d != 1 for d in tensor_arg(types, k, name).shape):
            raise TypeInferenceError(f"{name} must be a scalar, got {types[k]}")


def _valid_counts_rel(types: Sequence[Type], attrs: GetValidCountsAttrs) -> Type:
    data = tensor_of(types[0], 3, "data")
    _scalars(types, 1, ("score_threshold",))
    return TupleType([TensorType(data.shape[:1], "int32"), data, TensorType(data.shape[:2], "int32")])


_BOXES = np.array(
    [
        [
            [0, 0.8, 1, 20, 25, 45],
            [1, 0.7, 30, 60, 50, 80],
            [0, 0.4, 4, 21, 19, 40],
            [2, 0.9, 35, 61, 52, 79],
            [1, 0.5, 100, 60, 70, 110],
        ]
    ],
    "float32",
)
_THRESHOLD, _COUNT = np.array(0.45, "float32"), np.array([4], "int32")
_INDICES = np.array([[0, 1, 3, 4, -1]], "int32")
register_op(
    "vision.get_valid_counts",
    inputs=("data", "score_threshold"),
    attrs=GetValidCountsAttrs,
    rel=_valid_counts_rel,
    doc="The number of boxes with a score above a threshold, these boxes first, and where each was.",
    samples=(Sample([_BOXES, _THRESHOLD]), Sample([_BOXES, _THRESHOLD], {"id_index": -1, "score_index": 1})),
).set_support_level(5)


def get_valid_counts(
    data: Operand, score_threshold: float | Operand, id_index: int = 0, score_index: int = 1
) -> TupleWrapper:
    """``T[N, A, E] -> (int32[N], T[N, A, E], int32[N, A])``, -1 beyond the count. Source: ``relay.vision``."""
    args = [as_expr(data), as_expr(score_threshold, "float32")]
    return TupleWrapper(make_call("vision.get_valid_counts", args, GetValidCountsAttrs(id_index, score_index)), 3)


def _nms_rel(types: Sequence[Type], attrs: NonMaximumSuppressionAttrs) -> Type:
    data, count = tensor_of(types[0], 3, "data"), tensor_of(types[1], 1, "valid_count")
    indices = tensor_of(types[2], 2, "indices")
    if differ(count.shape[0], data.shape[0]) or any(
        differ(a, b) for a, b in zip(indices.shape, data.shape, strict=False)
    ):
        raise TypeInferenceError(f"valid_count and indices must fit {data}, got {count} and {indices}")
    _scalars(types, 3, ("max_output_size", "iou_threshold"))
    if not attrs.return_indices:
        return data
    return TupleType([TensorType(data.shape[:2], "int32"), TensorType((data.shape[0], 1), "int32")])


_ALL, _HALF = np.array(-1, "int32"), np.array(0.5, "float32")
register_op(
    "vision.non_max_suppression",
    inputs=("data", "valid_count", "indices", "max_output_size", "iou_threshold"),
    attrs=NonMaximumSuppressionAttrs,
    rel=_nms_rel,
    doc="Boxes without those that overlap one of a higher score; or the places of what is left, and their number.",
    samples=(
        Sample([_BOXES, _COUNT, _INDICES, _ALL, _HALF]),
        Sample([_BOXES, _COUNT, _INDICES, _ALL, _HALF], {"return_indices": False, "force_suppress": True, "top_k": 2}),
        Sample(
            [_BOXES, _COUNT, _INDICES, np.array(1, "int32"), _HALF],
            {"return_indices": False, "invalid_to_bottom": True},
        ),
    ),
).set_support_level(5)


@dataclass(eq=False, repr=False)
class NonMaximumSuppressionArguments(Arguments):
    """Arguments of ``non_max_suppression``."""

    data: Operand
    valid_count: Operand
    indices: Operand
    max_output_size: int | Operand = -1
    iou_threshold: float | Operand = 0.5
    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False


@takes_fields_of(NonMaximumSuppressionArguments)
def non_max_suppression(given: NonMaximumSuppressionArguments) -> Call | TupleWrapper:
    """``T[N, A, E], int32[N], int32[N, A] -> (int32[N, A], int32[N, 1])``, or ``T[N, A, E]`` without indices.

    Source: ``relay.vision.non_max_suppression``.
    """
    args = [
        as_expr(given.data),
        as_expr(given.valid_count),
        as_expr(given.indices),
        as_expr(given.max_output_size, "int32"),
        as_expr(given.iou_threshold, "float32"),
    ]
    attrs = given.attrs(
        NonMaximumSuppressionAttrs,
        force_suppress=bool(given.force_suppress),
        return_indices=bool(given.return_indices),
        invalid_to_bottom=bool(given.invalid_to_bottom),
    )
    call = make_call("vision.non_max_suppression", args, attrs)
    return TupleWrapper(call, 2) if given.return_indices else call


def _scored_boxes(types: Sequence[Type], classes: int) -> tuple[TensorType, TensorType]:
    boxes, scores = tensor_of(types[0], 3, "boxes"), tensor_of(types[1], 3, "scores")
    count = scores.shape[3 - classes]
    if differ(boxes.shape[0], scores.shape[0]) or differ(boxes.shape[1], count) or differ(boxes.shape[2], 4):
        raise TypeInferenceError(f"boxes {boxes} and scores {scores} do not fit")
    return boxes, scores


def _all_class_rel(types: Sequence[Type], attrs: AllClassNonMaximumSuppressionAttrs) -> Type:
    _, scores = _scored_boxes(types, 1)
    _scalars(types, 2, ("max_output_boxes_per_class", "iou_threshold", "score_threshold"))
    if attrs.output_format not in OUTPUT_FORMATS:
        raise TypeInferenceError(f"output_format is one of {', '.join(OUTPUT_FORMATS)}, got {attrs.output_format!r}")
    batch, classes, count = scores.shape
    each: Dim = classes * count if isinstance(classes, int) and isinstance(count, int) else Any()
    if attrs.output_format == "onnx":
        total: Dim = batch * each if isinstance(batch, int) and isinstance(each, int) else Any()
        return TupleType([TensorType((total, 3), "int64"), TensorType((1,), "int64")])
    return TupleType(
        [TensorType((batch, each, 2), "int64"), TensorType((batch, each), "float32"), TensorType((batch,), "int64")]
    )


_CORNERS = np.array(
    [[[0.0, 0.0, 0.3, 0.3], [0.5, 0.5, 0.4, 0.4], [0.0, 0.0, 0.5, 0.5], [0.5, 0.5, 0.9, 0.9], [0.5, 0.5, 1.0, 1.0]]],
    "float32",
)
_SCORES = np.array([[[0.1, 0.2, 0.6, 0.3, 0.9], [0.8, 0.2, 0.6, 0.3, 0.9]]], "float32")
register_op(
    "vision.all_class_non_max_suppression",
    inputs=("boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"),
    attrs=AllClassNonMaximumSuppressionAttrs,
    rel=_all_class_rel,
    doc="What is left of the boxes of each class, as (batch, class, box), and how many there are.",
    samples=tuple(
        Sample(
            [_CORNERS, _SCORES, np.array(2, "int32"), np.array(0.8, "float32"), np.array(0.4, "float32")],
            {"output_format": f},
        )
        for f in OUTPUT_FORMATS
    ),
)


def all_class_non_max_suppression(
    boxes: Operand,
    scores: Operand,
    max_output_boxes_per_class: int | Operand = -1,
    iou_threshold: float | Operand = -1.0,
    score_threshold: float | Operand = -1.0,
    output_format: str = "onnx",
) -> TupleWrapper:
    """``T[N, B, 4], T[N, C, B] -> (int64[N C B, 3], int64[1])``: (batch, class, box) by falling score in each class.

    In the format ``tensorflow`` ``(int64[N, C B, 2], f32[N, C B], int64[N])``, class after class too.
    Source: ``relay.vision.all_class_non_max_suppression``.
    """
    args = [
        as_expr(boxes),
        as_expr(scores),
        as_expr(max_output_boxes_per_class, "int32"),
        as_expr(iou_threshold, "float32"),
        as_expr(score_threshold, "float32"),
    ]
    attrs = AllClassNonMaximumSuppressionAttrs(output_format)
    call = make_call("vision.all_class_non_max_suppression", args, attrs)
    return TupleWrapper(call, 2 if output_format == "onnx" else 3)


def _regular_rel(types: Sequence[Type], attrs: RegularNonMaximumSuppressionAttrs) -> Type:
    boxes, scores = _scored_boxes(types, 2)
    if isinstance(scores.shape[2], int) and not 0 < attrs.num_classes <= scores.shape[2]:
        raise TypeInferenceError(f"num_classes is {attrs.num_classes}, scores have {scores.shape[2]}")
    batch, count = boxes.shape[0], attrs.max_detections
    flat = TensorType((batch, count), "float32")
    return TupleType([TensorType((batch, count, 4), "float32"), flat, flat, TensorType((batch,), "float32")])


register_op(
    "vision.regular_non_max_suppression",
    inputs=("boxes", "scores"),
    attrs=RegularNonMaximumSuppressionAttrs,
    rel=_regular_rel,
    doc="The best boxes of all classes, their classes and scores, and their number.",
    samples=(
        Sample(
            [_CORNERS, _SCORES.transpose(0, 2, 1).copy()],
            {"max_detections": 4, "max_detections_per_class": 2, "num_classes": 2, "iou_threshold": 0.6},
        ),
        Sample([_CORNERS, _SCORES.transpose(0, 2, 1).copy()], {"max_detections": 6, "score_threshold": 0.25}),
    ),
)


def regular_non_max_suppression(
    boxes: Operand,
    scores: Operand,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> TupleWrapper:
    """``T[N, B, 4], T[N, B, C] -> (f32[N, M, 4], f32[N, M], f32[N, M], f32[N])``, as TensorFlow Lite's regular NMS.

    Source: ``relay.vision.regular_non_max_suppression``.
    """
    attrs = RegularNonMaximumSuppressionAttrs(
        max_detections_per_class, max_detections, num_classes, float(iou_threshold), float(score_threshold)
    )
    args = [as_expr(boxes), as_expr(scores)]
    return TupleWrapper(make_call("vision.regular_non_max_suppression", args, attrs), 4)
