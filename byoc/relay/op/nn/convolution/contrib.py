"""Convolutions in forms that Relay's layout passes make: blocked (NCHWc), by Winograd, as a matrix product.

``nn.contrib_conv2d_NCHWc`` means ``nn.conv2d`` in its layouts. The others take a kernel that is transformed already
(``conv_weight_transforms``), so that the sizes of their result follow from ``channels`` and ``kernel_size``. Source:
``relay/op/nn/convolution.cc``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, RelationOf, Sample, get_op, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import Conv2DAttrs, Conv3DAttrs, ConvAttrs
from byoc.relay.op.core.arguments import Arguments, DataAndWeight, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import axes_of, data_letters, kernel_letters, per_axis, tensor_of
from byoc.relay.op.nn.convolution.conv import Conv2DArguments, Conv2DOptions, Conv3DOptions
from byoc.te import Tensor


@dataclass(frozen=True)
class Conv2DWinogradAttrs(Conv2DAttrs):
    """Attributes of a 2-d convolution by Winograd: those of ``nn.conv2d``, and the outputs of a tile on each axis."""

    tile_size: int = written(4)


@dataclass(frozen=True)
class Conv3DWinogradAttrs(Conv3DAttrs):
    """Attributes of a 3-d convolution by Winograd."""

    tile_size: int = written(4)


def _blocked_rel(types: Sequence[Type], attrs: Conv2DAttrs) -> Type:
    return get_op("nn.conv2d").result_type(types, attrs)


def _blocked_weight(types: Sequence[Type | None], out: Type | None, attrs: Attrs | None) -> Sequence[Type | None]:
    rule = get_op("nn.conv2d").infer_inputs
    return rule(types, out, attrs) if rule is not None else types


def _blocked_compute(attrs: Conv2DAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> Sequence[Tensor]:
    compute = get_op("nn.conv2d").compute  # whatever it is by now: it also takes blocked layouts
    assert compute is not None
    stages: list[Tensor] = []
    for stage in compute(attrs, inputs, out_type):
        assert isinstance(stage, Tensor)
        stages.append(stage)
    return stages


def _blocked_operations(attrs: Conv2DAttrs, types: Sequence[Type], out_type: TensorType) -> int:
    weight, size = tensor_arg(types, 1, "the kernel"), 2
    for dim in (*out_type.shape, *weight.shape):
        size *= dim if isinstance(dim, int) else 1
    return size // attrs.channels if attrs.channels else size


_BLOCKS = {"data_layout": "NCHW4c", "out_layout": "NCHW4c", "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}
register_op(
    "nn.contrib_conv2d_NCHWc",
    inputs=Inputs(("data", "weight"), infer=_blocked_weight),
    attrs=Conv2DAttrs,
    rel=_blocked_rel,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    compute=Implementation(_blocked_compute, kernel="nn.conv2d"),
    operations=_blocked_operations,
    doc="Convolution of data in blocks of channels.",
    samples=(Sample([(1, 2, 5, 6, 4), (2, 2, 3, 3, 4, 4)], {**_BLOCKS, "channels": 8, "kernel_layout": "OIHW4i4o"}),),
)
register_op(
    "nn.contrib_depthwise_conv2d_NCHWc",
    inputs=Inputs(("data", "weight"), infer=_blocked_weight),
    attrs=Conv2DAttrs,
    rel=_blocked_rel,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    compute=Implementation(_blocked_compute, kernel="nn.conv2d"),
    operations=_blocked_operations,
    doc="Convolution of each channel by itself, of data in blocks of channels.",
    samples=(
        Sample(
            [(1, 2, 5, 6, 4), (2, 1, 3, 3, 1, 4)], {**_BLOCKS, "channels": 8, "groups": 8, "kernel_layout": "OIHW1i4o"}
        ),
    ),
)


def _from_attributes(n: int, plain: bool) -> RelationOf[ConvAttrs]:
    """The relation of a convolution whose kernel has another form: the kernel of its attributes stands for it."""

    def relation(types: Sequence[Type], attrs: ConvAttrs) -> Type:
        data = tensor_of(types[0], n + 2, "data")
        if attrs.channels is None or attrs.kernel_size is None:
            raise TypeInferenceError("channels and kernel_size must be given, for the kernel is transformed")
        ones = (*per_axis(attrs.strides, n, "strides"), *per_axis(attrs.dilation, n, "dilation"))
        if not plain and (set(ones) != {1} or attrs.groups != 1):
            raise TypeInferenceError("a convolution by Winograd has strides, dilation and groups of 1")
        channels = data.shape[axes_of(attrs.data_layout, data_letters(n), "data")[1]]
        if isinstance(channels, Any):
            raise TypeInferenceError(f"the number of channels must be known, got {data}")
        dims = dict(zip(kernel_letters(n), (attrs.channels, channels // attrs.groups, *attrs.kernel_size), strict=True))
        weight = TensorType([dims[letter] for letter in attrs.kernel_layout], data.dtype)
        return get_op(f"nn.conv{n}d").result_type([data, weight], attrs)

    return relation


_TILES = {"tile_size": 2, "channels": 3, "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}
_DEEP = {"tile_size": 2, "channels": 2, "kernel_size": (3, 3, 3), "padding": (1,) * 6}
register_op(
    "nn.contrib_conv2d_winograd_without_weight_transform",
    inputs=("data", "weight"),
    attrs=Conv2DWinogradAttrs,
    rel=_from_attributes(2, False),
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="Convolution by Winograd, of a kernel that is transformed already.",
    samples=(Sample([(1, 2, 5, 6), (4, 4, 3, 2)], _TILES),),
)
register_op(
    "nn.contrib_conv3d_winograd_without_weight_transform",
    inputs=("data", "weight"),
    attrs=Conv3DWinogradAttrs,
    rel=_from_attributes(3, False),
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="3-d convolution by Winograd, of a kernel that is transformed already.",
    samples=(
        Sample([(1, 2, 4, 5, 4), (4, 4, 4, 2, 2)], _DEEP),
        Sample([(1, 2, 4, 5, 4), (4, 4, 2, 2, 2)], {**_DEEP, "kernel_size": (2, 3, 3)}),
    ),
)
register_op(
    "nn.contrib_conv2d_gemm_without_weight_transform",
    inputs=("data", "weight"),
    attrs=Conv2DAttrs,
    rel=_from_attributes(2, True),
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="Convolution as a product with a kernel that stands in transposed tiles.",
    samples=(
        Sample(
            [(1, 5, 5, 3), (1, 3, 4, 16)],
            {"channels": 3, "kernel_size": (3, 3), "data_layout": "NHWC", "kernel_layout": "HWIO", "padding": (1,) * 4},
        ),
        Sample(
            [(1, 4, 4, 2), np.ones((1, 1, 4, 8), "int8")],
            {
                "channels": 4,
                "kernel_size": (2, 2),
                "data_layout": "NHWC",
                "kernel_layout": "HWIO",
                "out_dtype": "int32",
            },
            "int8",
            -9,
            9,
        ),
    ),
)


@dataclass(eq=False, repr=False)
class DataAndKernel(Arguments):
    """The inputs of a convolution in blocked layouts."""

    data: RelayExpr
    kernel: RelayExpr


@dataclass(eq=False, repr=False)
class BlockedArguments(Conv2DOptions, DataAndKernel):
    """Arguments of the convolutions in blocked layouts."""

    data_layout: str = "NCHW8c"


@dataclass(eq=False, repr=False)
class DataAndTiles(DataAndWeight):
    """The inputs of a convolution by Winograd, and the outputs of a tile on each axis."""

    tile_size: int


@dataclass(eq=False, repr=False)
class Winograd2DArguments(Conv2DOptions, DataAndTiles):
    """Arguments of a 2-d convolution by Winograd."""


@dataclass(eq=False, repr=False)
class Winograd3DArguments(Conv3DOptions, DataAndTiles):
    """Arguments of a 3-d convolution by Winograd."""


@takes_fields_of(BlockedArguments)
def contrib_conv2d_nchwc(given: BlockedArguments) -> Call:
    """2-d convolution in blocked layouts. Source: ``relay.nn.contrib_conv2d_nchwc``."""
    return make_call("nn.contrib_conv2d_NCHWc", [given.data, given.kernel], given.attrs(Conv2DAttrs))


@takes_fields_of(BlockedArguments)
def contrib_depthwise_conv2d_nchwc(given: BlockedArguments) -> Call:
    """2-d depthwise convolution in blocked layouts. Source: ``relay.nn.contrib_depthwise_conv2d_nchwc``."""
    return make_call("nn.contrib_depthwise_conv2d_NCHWc", [given.data, given.kernel], given.attrs(Conv2DAttrs))


@takes_fields_of(Winograd2DArguments)
def contrib_conv2d_winograd_without_weight_transform(given: Winograd2DArguments) -> Call:
    """2-d convolution with the kernel of ``contrib_conv2d_winograd_weight_transform``. Source: ``relay.nn``."""
    attrs = given.attrs(Conv2DWinogradAttrs)
    return make_call("nn.contrib_conv2d_winograd_without_weight_transform", [given.data, given.weight], attrs)


@takes_fields_of(Winograd3DArguments)
def contrib_conv3d_winograd_without_weight_transform(given: Winograd3DArguments) -> Call:
    """3-d convolution with the kernel of ``contrib_conv3d_winograd_weight_transform``. Source: ``relay.nn``."""
    attrs = given.attrs(Conv3DWinogradAttrs)
    return make_call("nn.contrib_conv3d_winograd_without_weight_transform", [given.data, given.weight], attrs)


@takes_fields_of(Conv2DArguments)
def contrib_conv2d_gemm_without_weight_transform(given: Conv2DArguments) -> Call:
    """2-d convolution with the kernel of ``contrib_conv2d_gemm_weight_transform``. Source: ``relay.nn``."""
    attrs = given.attrs(Conv2DAttrs)
    return make_call("nn.contrib_conv2d_gemm_without_weight_transform", [given.data, given.weight], attrs)
