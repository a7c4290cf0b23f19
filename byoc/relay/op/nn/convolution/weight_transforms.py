"""Kernels of convolutions brought to other forms before anything runs: for Winograd, NNPACK, matrix products.

Source: the ``…WeightTransform`` relations of Relay's ``nn/convolution.h``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Sample, register_op
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import tensor_of
from byoc.runtime.kernels.nn.winograd import transforms_depth


@dataclass(frozen=True)
class ConvWinogradWeightTransformAttrs(Attrs):
    """Attributes of the transforms for Winograd: the outputs of a tile on each axis."""

    tile_size: int = 4


@dataclass(frozen=True)
class ConvGemmWeightTransformAttrs(Attrs):
    """Attributes of the transform for matrix products: the sizes of a tile."""

    tile_N: int = 4
    tile_K: int = 16


@dataclass(frozen=True)
class Conv2DWinogradNNPACKWeightTransformAttrs(Attrs):
    """Attributes of the transform for NNPACK: its number of an algorithm, and the dtype of the result."""

    convolution_algorithm: int = 0
    out_dtype: str = ""


def _weight(types: Sequence[Type], ndim: int) -> TensorType:
    weight = tensor_of(types[0], ndim, "the kernel")
    if not weight.is_static:
        raise TypeInferenceError(f"the kernel must have a known shape, got {weight}")
    return weight


def _weight_shape(types: Sequence[Type], ndim: int) -> tuple[int, ...]:
    return _weight(types, ndim).concrete_shape


def _tile(attrs: ConvWinogradWeightTransformAttrs) -> int:
    if attrs.tile_size < 1:
        raise TypeInferenceError(f"tile_size must be positive, got {attrs.tile_size}")
    return attrs.tile_size - 1


def _winograd_2d_rel(types: Sequence[Type], attrs: ConvWinogradWeightTransformAttrs) -> Type:
    out, inputs, height, width = _weight_shape(types, 4)
    more = _tile(attrs)
    return TensorType((more + height, more + width, out, inputs), tensor_arg(types, 0).dtype)


def _winograd_3d_rel(types: Sequence[Type], attrs: ConvWinogradWeightTransformAttrs) -> Type:
    out, inputs, depth, height, width = _weight_shape(types, 5)
    more = _tile(attrs)
    if transforms_depth((depth, height, width)):
        shape: tuple[int, ...] = (more + depth, more + height, more + width, out, inputs)
    else:
        shape = (more + height, more + width, depth, out, inputs)
    return TensorType(shape, tensor_arg(types, 0).dtype)


def _nnpack_rel(types: Sequence[Type], attrs: Conv2DWinogradNNPACKWeightTransformAttrs) -> Type:
    weight = _weight(types, 4)
    if weight.shape[2:] != (3, 3):
        raise TypeInferenceError(f"NNPACK transforms kernels of 3 x 3, got {weight}")
    return TensorType((*weight.shape[:2], 8, 8), attrs.out_dtype or weight.dtype)


def _gemm_rel(types: Sequence[Type], attrs: ConvGemmWeightTransformAttrs) -> Type:
    height, width, inputs, out = _weight_shape(types, 4)
    if min(attrs.tile_N, attrs.tile_K) < 1:
        raise TypeInferenceError(f"tiles must be positive, got {attrs.tile_N} and {attrs.tile_K}")
    rows, columns = -(-height * width * inputs // attrs.tile_K), -(-out // attrs.tile_N)
    return TensorType((columns, rows, attrs.tile_N, attrs.tile_K), tensor_arg(types, 0).dtype)


register_op(
    "nn.contrib_conv2d_winograd_weight_transform",
    inputs=("weight",),
    attrs=ConvWinogradWeightTransformAttrs,
    rel=_winograd_2d_rel,
    doc="A kernel (OIHW) for a 2-d convolution by Winograd.",
    samples=(Sample([(3, 2, 3, 3)], {"tile_size": 2}), Sample([(2, 2, 5, 5)], {"tile_size": 4})),
)
register_op(
    "nn.contrib_conv3d_winograd_weight_transform",
    inputs=("weight",),
    attrs=ConvWinogradWeightTransformAttrs,
    rel=_winograd_3d_rel,
    doc="A kernel (OIDHW) for a 3-d convolution by Winograd.",
    samples=(Sample([(3, 2, 3, 3, 3)], {"tile_size": 2}), Sample([(3, 2, 1, 3, 3)], {"tile_size": 4})),
)
register_op(
    "nn.contrib_conv2d_winograd_nnpack_weight_transform",
    inputs=("weight",),
    rel=_nnpack_rel,
    attrs=Conv2DWinogradNNPACKWeightTransformAttrs,
    doc="A kernel (OIHW) for NNPACK's convolution by Winograd.",
    samples=(Sample([(3, 2, 3, 3)]),),
)
register_op(
    "nn.contrib_conv2d_gemm_weight_transform",
    inputs=("weight",),
    attrs=ConvGemmWeightTransformAttrs,
    rel=_gemm_rel,
    doc="A kernel (HWIO) as a transposed matrix in tiles.",
    samples=(Sample([(3, 3, 3, 5)]), Sample([(1, 1, 16, 8)], {"tile_N": 8, "tile_K": 8}, "int8", -9, 9)),
)


def contrib_conv2d_winograd_weight_transform(weight: RelayExpr, tile_size: int) -> Call:
    """``T[K, C, h, w] -> T[tile + h - 1, tile + w - 1, K, C]``. Source: ``relay.nn``."""
    attrs = ConvWinogradWeightTransformAttrs(tile_size)
    return make_call("nn.contrib_conv2d_winograd_weight_transform", [weight], attrs)


def contrib_conv3d_winograd_weight_transform(weight: RelayExpr, tile_size: int) -> Call:
    """``T[K, C, d, h, w]`` with its height and width, and a depth of 3 to 7 like the height, transformed."""
    attrs = ConvWinogradWeightTransformAttrs(tile_size)
    return make_call("nn.contrib_conv3d_winograd_weight_transform", [weight], attrs)


def contrib_conv2d_winograd_nnpack_weight_transform(
    weight: RelayExpr, convolution_algorithm: int, out_dtype: str = ""
) -> Call:
    """``T[K, C, 3, 3] -> T[K, C, 8, 8]``. Source: ``relay.nn``."""
    attrs = Conv2DWinogradNNPACKWeightTransformAttrs(convolution_algorithm, out_dtype)
    return make_call("nn.contrib_conv2d_winograd_nnpack_weight_transform", [weight], attrs)


def contrib_conv2d_gemm_weight_transform(weights: RelayExpr, tile_N: int, tile_K: int) -> Call:
    """``T[h, w, C, K] -> T[K / tile_N, h w C / tile_K, tile_N, tile_K]``. Source: ``relay.nn``."""
    attrs = ConvGemmWeightTransformAttrs(tile_N, tile_K)
    return make_call("nn.contrib_conv2d_gemm_weight_transform", [weights], attrs)
