"""Sampling of images at free places: ``image.affine_grid``, ``image.grid_sample``, ``image.crop_and_resize``.

Places of a grid are in [-1, 1], x before y (before z), on the axis after the batch. Source: ``relay/op/image``; the
numbers are those of PyTorch's ``grid_sample`` and TensorFlow's ``crop_and_resize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, as_ints
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float, is_integer, only, tensor_arg, unify_dim
from byoc.relay.op.core.window import arranged, axes_of, data_letters, differ, tensor_of
from byoc.relay.op.image.sampling_compute import pixels_of, placed, sampled, taps_of

PADDING_MODES = ("zeros", "border", "reflection")


@dataclass(frozen=True)
class AffineGridAttrs(Attrs):
    """Attributes of ``image.affine_grid``: height and width of the grid."""

    target_shape: tuple[int, ...] | None = None


@dataclass(frozen=True)
class GridSampleAttrs(Attrs):
    """Attributes of ``image.grid_sample``."""

    method: str = "bilinear"
    layout: str = "NCHW"
    padding_mode: str = "zeros"
    align_corners: bool = True


@dataclass(frozen=True)
class CropAndResizeAttrs(Attrs):
    """Attributes of ``image.crop_and_resize``: height and width of the crops."""

    crop_size: tuple[int, ...] = ()
    layout: str = "NCHW"
    method: str = "bilinear"
    extrapolation_value: float = 0.0
    out_dtype: str = ""


def _affine_rel(types: Sequence[Type], attrs: AffineGridAttrs) -> Type:
    data, shape = tensor_of(types[0], 3, "data"), attrs.target_shape
    if differ(data.shape[1], 2) or differ(data.shape[2], 3) or not is_float(data.dtype):
        raise TypeInferenceError(f"takes affine matrices [batch, 2, 3], got {data}")
    if shape is None or len(shape) != 2 or min(shape) < 1:
        raise TypeInferenceError(f"target_shape must be a height and a width, got {shape}")
    return TensorType((data.shape[0], 2, *shape), data.dtype)


def _affine_compute(attrs: AffineGridAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, (height, width) = inputs[0], as_ints(out_type.shape[2:])

    def place(index: te.PrimExpr, size: int) -> te.PrimExpr:
        step = te.const(2.0 / (size - 1) if size > 1 else 0.0, data.dtype)
        return te.cast(data.dtype, index) * step - 1.0

    def element(n: te.PrimExpr, c: te.PrimExpr, i: te.PrimExpr, j: te.PrimExpr) -> te.PrimExpr:
        return data[(n, c, 0)] * place(j, width) + data[(n, c, 1)] * place(i, height) + data[(n, c, 2)]

    return [te.compute(te.shape_of(out_type), element, "affine_grid")]


register_op(
    "image.affine_grid",
    inputs=("data",),
    attrs=AffineGridAttrs,
    rel=_affine_rel,
    pattern=OpPattern.INJECTIVE,
    compute=_affine_compute,
    doc="Where an affine map puts each place of a regular grid.",
    samples=(Sample([(2, 2, 3)], {"target_shape": (3, 4)}), Sample([(1, 2, 3)], {"target_shape": (5, 1)}, "float64")),
).set_support_level(5)


def affine_grid(data: Operand, target_shape: Sequence[int] | None = None) -> Call:
    """``T[N, 2, 3] -> T[N, 2, H, W]``, places (x, y) for ``grid_sample``. Source: ``relay.image.affine_grid``."""
    shape = None if target_shape is None else tuple(int(d) for d in target_shape)
    return make_call("image.affine_grid", [as_expr(data)], AffineGridAttrs(shape))


def _grid_rel(types: Sequence[Type], attrs: GridSampleAttrs) -> Type:
    data, grid = tensor_arg(types, 0), tensor_arg(types, 1, "grid")
    n = data.ndim - 2
    if n not in (1, 2, 3) or attrs.layout != data_letters(n):
        raise TypeInferenceError(f"takes data in NCW, NCHW or NCDHW, got {data} in {attrs.layout}")
    methods = ("nearest", "bilinear", "bicubic")
    if attrs.method not in methods or attrs.padding_mode not in PADDING_MODES:
        raise TypeInferenceError(
            f"method is one of {', '.join(methods)} and padding_mode of {', '.join(PADDING_MODES)}, got "
            f"{attrs.method!r} and {attrs.padding_mode!r}"
        )
    if grid.ndim != data.ndim or differ(grid.shape[1], n) or unify_dim(grid.shape[0], data.shape[0]) is None:
        raise TypeInferenceError(f"grid must be [batch, {n}, ...] of {n} spatial axes, got {grid}")
    if not is_float(grid.dtype) or not is_float(data.dtype):
        raise TypeInferenceError(f"data and grid must be floats, got {data.dtype} and {grid.dtype}")
    return TensorType((*data.shape[:2], *grid.shape[2:]), data.dtype)


def _grid_compute(attrs: GridSampleAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, grid = inputs
    count = data.ndim - 2

    def element(n: te.PrimExpr, c: te.PrimExpr, *place: te.PrimExpr) -> te.PrimExpr:
        taps = []
        for k, size in enumerate(data.shape[2:]):  # the grid has the last axis first
            at = pixels_of(grid(n, count - 1 - k, *place), size, attrs.align_corners)
            at = placed(at, size, attrs.method, attrs.padding_mode, attrs.align_corners)
            taps.append(taps_of(at, attrs.method))
        return sampled(data, (n, c), taps, attrs.padding_mode, attrs.align_corners)

    return [te.compute(te.shape_of(out_type), element, "grid_sample")]


_PLACES = np.array([[[[-1.2, 0.3], [0.9, 1.0]], [[0.1, -0.7], [1.4, 0.0]]]], "float32")
register_op(
    "image.grid_sample",
    inputs=("data", "grid"),
    attrs=GridSampleAttrs,
    rel=_grid_rel,
    pattern=OpPattern.INJECTIVE,
    traits=Traits(OpKind.OTHER),
    compute=Implementation(_grid_compute, code_for=only({"float32", "float64"}.__contains__)),
    doc="The pixels of an image at the places of a grid.",
    samples=(
        *(
            Sample([(1, 2, 4, 5), _PLACES], {"method": m, "padding_mode": p, "align_corners": a})
            for m in ("nearest", "bilinear", "bicubic")
            for p in PADDING_MODES
            for a in (True, False)
        ),
        Sample([(2, 2, 3, 4, 3), (2, 3, 2, 2, 3)], {"layout": "NCDHW"}, "float32", -1.2, 1.2),
        Sample([(1, 2, 3, 4, 3), (1, 3, 2, 1, 3)], {"layout": "NCDHW", "method": "bicubic"}, "float32", -1.2, 1.2),
        Sample([(2, 2, 5), (2, 1, 4)], {"layout": "NCW", "padding_mode": "reflection"}, "float32", -1.2, 1.2),
    ),
).set_support_level(5)


def grid_sample(
    data: Operand,
    grid: Operand,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Call:
    """``T[N, C, *in], T[N, n, *out] -> T[N, C, *out]``. Source: ``relay.image.grid_sample``."""
    attrs = GridSampleAttrs(method, layout, padding_mode, bool(align_corners))
    return make_call("image.grid_sample", [as_expr(data), as_expr(grid)], attrs)


def _crop_rel(types: Sequence[Type], attrs: CropAndResizeAttrs) -> Type:
    data, boxes = tensor_of(types[0], 4, "data"), tensor_of(types[1], 2, "boxes")
    channels = data.shape[axes_of(attrs.layout, "NCHW", "data")[1]]
    if differ(boxes.shape[1], 4) or not is_float(boxes.dtype):
        raise TypeInferenceError(f"boxes must be floats [n, 4], got {boxes}")
    indices = tensor_of(types[2], 1, "box_indices")
    if not is_integer(indices.dtype):
        raise TypeInferenceError(f"box_indices must be a vector of integers, got {indices}")
    if len(attrs.crop_size) != 2 or min(attrs.crop_size) < 1:
        raise TypeInferenceError(f"crop_size must be a height and a width, got {attrs.crop_size}")
    if attrs.method not in ("bilinear", "nearest_neighbor"):
        raise TypeInferenceError(f"method is bilinear or nearest_neighbor, got {attrs.method!r}")
    shape = arranged((boxes.shape[0], channels, *attrs.crop_size), "NCHW", attrs.layout)
    return TensorType(shape, attrs.out_dtype or data.dtype)


_BOXES = np.array([[0.1, 0.2, 0.8, 0.7], [0.9, 1.2, -0.1, 0.3]], "float32")
_IMAGES = np.array([1, 0], "int32")
register_op(
    "image.crop_and_resize",
    inputs=("data", "boxes", "box_indices"),
    attrs=CropAndResizeAttrs,
    rel=_crop_rel,
    doc="Parts of images, each brought to one size.",
    samples=(
        Sample([(2, 3, 6, 7), _BOXES, _IMAGES], {"crop_size": (4, 3), "extrapolation_value": 0.5}),
        Sample(
            [(2, 6, 7, 3), _BOXES, _IMAGES],
            {"crop_size": (1, 5), "layout": "NHWC", "method": "nearest_neighbor", "out_dtype": "float64"},
        ),
    ),
).set_support_level(5)


@dataclass(eq=False, repr=False)
class CropAndResizeArguments(Arguments):
    """Arguments of ``crop_and_resize``."""

    data: Operand
    boxes: Operand
    box_indices: Operand
    crop_size: Sequence[int]
    layout: str
    method: str = "bilinear"
    extrapolation_value: float = 0
    out_dtype: str | None = None


@takes_fields_of(CropAndResizeArguments)
def crop_and_resize(given: CropAndResizeArguments) -> Call:
    """Boxes (y1, x1, y2, x2), in parts of the image, as crops of one size. Source: ``relay.image.crop_and_resize``.

    ``T[N, C, H, W], f32[n, 4], int32[n] -> T[n, C, *crop_size]``, in *layout*.
    """
    attrs = given.attrs(
        CropAndResizeAttrs,
        crop_size=tuple(int(d) for d in given.crop_size),
        extrapolation_value=float(given.extrapolation_value),
        out_dtype=given.out_dtype or "",
    )
    inputs = (given.data, given.boxes, given.box_indices)
    return make_call("image.crop_and_resize", [as_expr(v) for v in inputs], attrs)
