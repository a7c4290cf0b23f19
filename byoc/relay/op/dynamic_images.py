"""Padding and resizing by numbers that are known only at run time, under Relay's prefix ``dyn.``.

The rank and the batch and channels of a result are known, the sizes that change are ``Any()``. The builders of the
static operators choose these when a size is an expression but no constant. Source: ``relay/op/dyn``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OPS, OpPattern, RelationOf, Sample, register_op
from byoc.ir.traits import OpKind, Traits, move
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.op.core.known_shapes import FKNOWN_SHAPE, pad_shape
from byoc.relay.op.core.type_relations import is_integer, tensor_arg
from byoc.relay.op.core.window import arranged, axes_of, data_letters, differ, tensor_of
from byoc.relay.op.dynamic import named, vector_length
from byoc.relay.op.image.resize import Resize2DAttrs
from byoc.relay.op.nn.pad import DynPadAttrs
from byoc.relay.op.nn.upsampling import UpSampling3DAttrs, UpSamplingAttrs
from byoc.te.expr import INDEX


def _unknown_sizes(types: Sequence[Type], attrs: Attrs, n: int, dtype: str) -> TensorType:
    data, letters = tensor_of(types[0], n + 2, "data"), data_letters(n)
    batch, channels = (data.shape[a] for a in axes_of(str(attrs["layout"]), letters, "data")[:2])
    return TensorType(arranged((batch, channels, *[Any()] * n), letters, str(attrs["layout"])), dtype or data.dtype)


def _resize_rel(types: Sequence[Type], attrs: Resize2DAttrs) -> Type:
    roi = tensor_arg(types, 2, "roi")
    if vector_length(types, 1, "size") != 2 or roi.ndim != 1 or differ(roi.shape[0], 4):
        raise TypeInferenceError(f"size must be two numbers and roi four, got {types[1]} and {roi}")
    return _unknown_sizes(types, attrs, 2, attrs.out_dtype)


def _upsampling_rel(n: int) -> RelationOf[Attrs]:
    def relation(types: Sequence[Type], attrs: Attrs) -> Type:
        for k in range(1, n + 1):
            if any(d != 1 for d in tensor_arg(types, k, "scale").shape):
                raise TypeInferenceError(f"a scale must be a scalar, got {types[k]}")
        return _unknown_sizes(types, attrs, n, "")

    return relation


def _pad_rel(types: Sequence[Type], attrs: DynPadAttrs) -> Type:
    data, width = tensor_arg(types, 0), tensor_arg(types, 1, "pad_width")
    fits = width.ndim == 2 and not differ(width.shape[0], data.ndim) and not differ(width.shape[1], 2)
    if not fits or not is_integer(width.dtype):
        raise TypeInferenceError(f"pad_width must be integers [{data.ndim}, 2], got {width}")
    if any(d != 1 for d in tensor_arg(types, 2, "pad_value").shape):
        raise TypeInferenceError(f"pad_value must be a scalar, got {types[2]}")
    return named(TensorType([Any()] * data.ndim, data.dtype), attrs)


def _pad_compute(attrs: DynPadAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    """Of constants, which is where the type has names."""
    data, width, value = inputs
    fill = te.cast(data.dtype, value(*[0] * value.ndim))

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        places = [k - te.cast(INDEX, width[axis, 0]) for axis, k in enumerate(i)]
        inside = [c for p, size in zip(places, data.shape, strict=True) for c in (p >= 0, p < size)]
        return te.if_then_else(te.all_of(*inside), data(*places), fill)

    return [te.compute(te.shape_of(out_type), element, "pad")]


_TWO, _HALF = np.array(2.0, "float32"), np.array(1.5, "float32")
_ROI = np.zeros(4, "float32")
_SCALES_2D = {1: "scale_h", 2: "scale_w"}
_SCALES_3D = {1: "scale_d", 2: "scale_h", 3: "scale_w"}
register_op(
    "dyn.image.resize2d",
    inputs=("data", "size", "roi"),
    attrs=Resize2DAttrs,
    rel=_resize_rel,
    traits=Traits(OpKind.OTHER).static("image.resize2d", {1: "size", 2: "roi"}),
    doc="Resizing of height and width to what an input says.",
    samples=(
        Sample([(1, 2, 4, 5), np.array([6, 3], "int64"), _ROI], {"size": ()}),
        Sample(
            [(1, 4, 5, 2), np.array([8, 7], "int32"), _ROI],
            {
                "size": (),
                "layout": "NHWC",
                "method": "nearest_neighbor",
                "coordinate_transformation_mode": "asymmetric",
            },
        ),
    ),
)
register_op(
    "dyn.nn.upsampling",
    inputs=("data", "scale_h", "scale_w"),
    attrs=UpSamplingAttrs,
    rel=_upsampling_rel(2),
    traits=Traits(OpKind.OTHER).static("nn.upsampling", _SCALES_2D, _SCALES_2D.values()),
    doc="Enlargement of height and width by factors that inputs hold.",
    samples=(Sample([(1, 2, 3, 4), _TWO, _HALF]),),
)
register_op(
    "dyn.nn.upsampling3d",
    inputs=("data", "scale_d", "scale_h", "scale_w"),
    attrs=UpSampling3DAttrs,
    rel=_upsampling_rel(3),
    traits=Traits(OpKind.OTHER).static("nn.upsampling3d", _SCALES_3D, _SCALES_3D.values()),
    doc="Enlargement of depth, height and width by factors that inputs hold.",
    samples=(Sample([(1, 2, 3, 2, 2), _TWO, _HALF, _TWO], {"method": "trilinear"}),),
)
register_op(
    "dyn.nn.pad",
    inputs=("data", "pad_width", "pad_value"),
    attrs=DynPadAttrs,
    rel=_pad_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_pad_compute,
    traits=move(0, 2).static("nn.pad", {1: "pad_width"}),
    doc="Padding of each axis by what an input says.",
    samples=(
        Sample([(2, 3), np.array([[1, 0], [2, 1]], "int64"), ()], {"pad_width": (), "known": ("3", "6")}),
        Sample([(2, 3), np.array([[1, 0], [2, 1]], "int64"), ()], {"pad_width": ()}),
        Sample([(3, 4), np.array([[1, 0], [2, 1]], "int32"), ()], {"pad_width": (), "pad_mode": "reflect"}),
    ),
)
OPS["dyn.nn.pad"].set_attr(FKNOWN_SHAPE, pad_shape)
