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
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Any, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import Conv2DAttrs, Conv3DAttrs, ConvAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.layout import axes_of, data_letters, kernel_letters, tensor_of
from byoc.relay.op.core.window import pad_tuple, per_axis
from byoc.relay.op.nn.convolution.conv import Ints, attr_or_none
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
    weight, size = types[1], 2
    for dim in (*out_type.shape, *weight.shape):  # type: ignore[attr-defined]
        size *= dim if isinstance(dim, int) else 1
    return size // attrs.channels if attrs.channels else size


_BLOCKS = {"data_layout": "NCHW4c", "out_layout": "NCHW4c", "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}
register_op(
    "nn.contrib_conv2d_NCHWc",
    inputs=("data", "weight"),
    attrs=Conv2DAttrs,
    rel=_blocked_rel,
    kernel="nn.conv2d",
    infer_inputs=_blocked_weight,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    compute=_blocked_compute,
    operations=_blocked_operations,
    doc="Convolution of data in blocks of channels.",
    samples=(Sample([(1, 2, 5, 6, 4), (2, 2, 3, 3, 4, 4)], {**_BLOCKS, "channels": 8, "kernel_layout": "OIHW4i4o"}),),
)
register_op(
    "nn.contrib_depthwise_conv2d_NCHWc",
    inputs=("data", "weight"),
    attrs=Conv2DAttrs,
    rel=_blocked_rel,
    kernel="nn.conv2d",
    infer_inputs=_blocked_weight,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    compute=_blocked_compute,
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


_Ints = tuple[int, ...]
_Sizes = tuple[_Ints, _Ints, _Ints, int, int | None, _Ints | None]


def _numbers(
    strides: Ints, padding: Ints, dilation: Ints, groups: int, channels: int | None, kernel_size: Ints | None, n: int
) -> _Sizes:
    return (
        per_axis(strides, n, "strides"),
        pad_tuple(padding, n),
        per_axis(dilation, n, "dilation"),
        groups,
        channels,
        attr_or_none(kernel_size, n),
    )


def contrib_conv2d_nchwc(
    data: RelayExpr,
    kernel: RelayExpr,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """2-d convolution in blocked layouts. Source: ``relay.nn.contrib_conv2d_nchwc``."""
    sizes = _numbers(strides, padding, dilation, groups, channels, kernel_size, 2)
    attrs = Conv2DAttrs(*sizes, data_layout, kernel_layout, out_layout, out_dtype)
    return make_call("nn.contrib_conv2d_NCHWc", [data, kernel], attrs)


def contrib_depthwise_conv2d_nchwc(
    data: RelayExpr,
    kernel: RelayExpr,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """2-d depthwise convolution in blocked layouts. Source: ``relay.nn.contrib_depthwise_conv2d_nchwc``."""
    sizes = _numbers(strides, padding, dilation, groups, channels, kernel_size, 2)
    attrs = Conv2DAttrs(*sizes, data_layout, kernel_layout, out_layout, out_dtype)
    return make_call("nn.contrib_depthwise_conv2d_NCHWc", [data, kernel], attrs)


def contrib_conv2d_winograd_without_weight_transform(
    data: RelayExpr,
    weight: RelayExpr,
    tile_size: int,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """2-d convolution with the kernel of ``contrib_conv2d_winograd_weight_transform``. Source: ``relay.nn``."""
    sizes = _numbers(strides, padding, dilation, groups, channels, kernel_size, 2)
    layouts = (data_layout, kernel_layout, out_layout, out_dtype)
    attrs = Conv2DWinogradAttrs(*sizes, *layouts, tile_size)
    return make_call("nn.contrib_conv2d_winograd_without_weight_transform", [data, weight], attrs)


def contrib_conv3d_winograd_without_weight_transform(
    data: RelayExpr,
    weight: RelayExpr,
    tile_size: int,
    strides: Ints = (1, 1, 1),
    padding: Ints = (0, 0, 0),
    dilation: Ints = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """3-d convolution with the kernel of ``contrib_conv3d_winograd_weight_transform``. Source: ``relay.nn``."""
    sizes = _numbers(strides, padding, dilation, groups, channels, kernel_size, 3)
    layouts = (data_layout, kernel_layout, out_layout, out_dtype)
    attrs = Conv3DWinogradAttrs(*sizes, *layouts, tile_size)
    return make_call("nn.contrib_conv3d_winograd_without_weight_transform", [data, weight], attrs)


def contrib_conv2d_gemm_without_weight_transform(
    data: RelayExpr,
    weight: RelayExpr,
    strides: Ints = (1, 1),
    padding: Ints = (0, 0),
    dilation: Ints = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """2-d convolution with the kernel of ``contrib_conv2d_gemm_weight_transform``. Source: ``relay.nn``."""
    sizes = _numbers(strides, padding, dilation, groups, channels, kernel_size, 2)
    attrs = Conv2DAttrs(*sizes, data_layout, kernel_layout, out_layout, out_dtype)
    return make_call("nn.contrib_conv2d_gemm_without_weight_transform", [data, weight], attrs)
