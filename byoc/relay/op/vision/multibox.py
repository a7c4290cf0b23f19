"""Anchors and boxes of single-shot detectors: ``vision.multibox_prior``, ``vision.multibox_transform_loc``.

Source: ``relay/op/vision/multibox_op.cc``; Liu et al., "SSD: single shot multibox detector".
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
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float
from byoc.relay.op.core.window import differ, tensor_of
from byoc.relay.tuple_wrapper import TupleWrapper


@dataclass(frozen=True)
class MultiBoxPriorAttrs(Attrs):
    """Attributes of ``vision.multibox_prior``; a step that is not positive is one pixel of the data."""

    sizes: tuple[float, ...] = (1.0,)
    ratios: tuple[float, ...] = (1.0,)
    steps: tuple[float, ...] = (-1.0, -1.0)
    offsets: tuple[float, ...] = (0.5, 0.5)
    clip: bool = False


@dataclass(frozen=True)
class MultiBoxTransformLocAttrs(Attrs):
    """Attributes of ``vision.multibox_transform_loc``."""

    clip: bool = True
    threshold: float = 0.01
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2)
    keep_background: bool = False


def _prior_rel(types: Sequence[Type], attrs: MultiBoxPriorAttrs) -> Type:
    data = tensor_of(types[0], 4, "data")
    if not attrs.sizes or not attrs.ratios or len(attrs.steps) != 2 or len(attrs.offsets) != 2:
        raise TypeInferenceError("sizes and ratios must have a number, steps and offsets two")
    height, width = data.shape[2:]
    count: Dim = Any()
    if isinstance(height, int) and isinstance(width, int):
        count = height * width * (len(attrs.sizes) + len(attrs.ratios) - 1)
    return TensorType((1, count, 4), data.dtype if is_float(data.dtype) else "float32")


register_op(
    "vision.multibox_prior",
    inputs=("data",),
    attrs=MultiBoxPriorAttrs,
    rel=_prior_rel,
    doc="Boxes of several sizes and ratios around each pixel: ``[1, boxes, 4]``.",
    samples=(
        Sample([(1, 3, 4, 5)]),
        Sample([(1, 3, 2, 3)], {"sizes": (0.3, 0.6), "ratios": (1.0, 2.0, 0.5), "steps": (0.4, 0.3), "clip": True}),
    ),
).set_support_level(5)


def _numbers(values: float | Sequence[float]) -> tuple[float, ...]:
    return (float(values),) if isinstance(values, (int, float)) else tuple(float(v) for v in values)


def multibox_prior(
    data: Operand,
    sizes: float | Sequence[float] = (1.0,),
    ratios: float | Sequence[float] = (1.0,),
    steps: Sequence[float] = (-1.0, -1.0),
    offsets: Sequence[float] = (0.5, 0.5),
    clip: bool = False,
) -> Call:
    """``T[N, C, H, W] -> T[1, H W (sizes + ratios - 1), 4]``, boxes (x1, y1, x2, y2) in parts of the image.

    Source: ``relay.vision.multibox_prior``.
    """
    attrs = MultiBoxPriorAttrs(_numbers(sizes), _numbers(ratios), _numbers(steps), _numbers(offsets), bool(clip))
    return make_call("vision.multibox_prior", [as_expr(data)], attrs)


def _transform_rel(types: Sequence[Type], attrs: MultiBoxTransformLocAttrs) -> Type:
    scores, locations = tensor_of(types[0], 3, "cls_prob"), tensor_of(types[1], 2, "loc_pred")
    anchor = tensor_of(types[2], 3, "anchor")
    batch, _, count = scores.shape
    if differ(locations.shape[0], batch) or (isinstance(count, int) and differ(locations.shape[1], count * 4)):
        raise TypeInferenceError(f"loc_pred must be [{batch}, 4 x {count}], got {locations}")
    if differ(anchor.shape[0], 1) or differ(anchor.shape[1], count) or differ(anchor.shape[2], 4):
        raise TypeInferenceError(f"anchor must be [1, {count}, 4], got {anchor}")
    if len(attrs.variances) != 4:
        raise TypeInferenceError(f"variances must be four numbers, got {attrs.variances}")
    return TupleType([TensorType((batch, count, 6), scores.dtype), TensorType((batch,), "int32")])


_SCORES = np.array([[[0.2, 0.5, 0.3], [0.2, 0.3, 0.3], [0.6, 0.2, 0.0]]], "float32")
_MOVES = np.linspace(-1, 1, 12, dtype="float32").reshape(1, 12)
_ANCHORS = np.array([[[-0.1, -0.1, 0.1, 0.1], [-0.2, -0.2, 0.2, 0.2], [0.2, 0.3, 1.2, 1.1]]], "float32")
register_op(
    "vision.multibox_transform_loc",
    inputs=("cls_prob", "loc_pred", "anchor"),
    attrs=MultiBoxTransformLocAttrs,
    rel=_transform_rel,
    doc="Boxes (class, score, x1, y1, x2, y2) of what is no background, and how many there are.",
    samples=(
        Sample([_SCORES, _MOVES, _ANCHORS]),
        Sample([_SCORES, _MOVES, _ANCHORS], {"clip": False, "threshold": 0.35}),
        Sample([_SCORES, _MOVES, _ANCHORS], {"keep_background": True, "threshold": 0.35}),
    ),
).set_support_level(5)


def multibox_transform_loc(
    cls_prob: Operand,
    loc_pred: Operand,
    anchor: Operand,
    clip: bool = True,
    threshold: float = 0.01,
    variances: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> TupleWrapper:
    """``T[N, classes, A], T[N, 4 A], T[1, A, 4] -> (T[N, A, 6], int32[N])``; class 0 is the background.

    Without *keep_background* boxes of the background are left out, and classes count from the one after it.

    Source: ``relay.vision.multibox_transform_loc``.
    """
    attrs = MultiBoxTransformLocAttrs(bool(clip), float(threshold), _numbers(variances), bool(keep_background))
    args = [as_expr(v) for v in (cls_prob, loc_pred, anchor)]
    return TupleWrapper(make_call("vision.multibox_transform_loc", args, attrs), 2)
