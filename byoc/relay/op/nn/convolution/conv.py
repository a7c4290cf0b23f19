"""Convolutions: ``nn.conv1d``, ``nn.conv2d``, ``nn.conv3d``. Source: ``relay.nn.conv2d`` and its kin.

Every order of the axes is taken as a layout; padding is kept as Relay keeps it, all before and then all after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from byoc.ir.expr import RelayExpr
from byoc.ir.op import ComputeOf, CountOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.traits import convolution, same_kernels
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import Conv1DAttrs, Conv2DAttrs, Conv3DAttrs, ConvAttrs
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.untyped_inputs import conv_weight
from byoc.relay.op.core.window import pad_tuple, per_axis
from byoc.relay.op.nn.convolution.compute import conv_stages
from byoc.relay.op.nn.convolution.geometry import conv_geometry, conv_operations, one_dtype_or_result, types_of
from byoc.relay.op.nn.convolution.group_kernels import has_group_axis, merged_stage
from byoc.te import Tensor

Ints = int | Sequence[int]


def _relation(n: int) -> RelationOf[ConvAttrs]:
    def relation(types: Sequence[Type], attrs: ConvAttrs) -> TensorType:
        return conv_geometry(types, attrs, n).result(attrs.out_layout or attrs.data_layout)

    return relation


def _compute(n: int) -> ComputeOf[ConvAttrs, Tensor, Type]:
    def compute(attrs: ConvAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
        (data, weight), plain = inputs, attrs
        if has_group_axis(attrs.kernel_layout):
            weight = merged_stage(weight, attrs.kernel_layout, "O")
            plain = replace(attrs, kernel_layout=attrs.kernel_layout[1:])
        return [conv_stages(data, weight, plain, conv_geometry(types_of(inputs), attrs, n))]

    return compute


def _operations(n: int) -> CountOf[ConvAttrs, Type]:
    return lambda attrs, types, out_type: conv_operations(conv_geometry(types, attrs, n))


def attr_or_none(size: Ints | None, n: int) -> tuple[int, ...] | None:
    """A kernel size as one number for each axis, or None where it is left to the kernel's shape."""
    return None if size is None else per_axis(size, n, "kernel_size")


def conv1d(
    data: RelayExpr,
    weight: RelayExpr,
    strides: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Ints | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """1-d convolution. Source: ``relay.nn.conv1d``. Raises UserError for a wrong count of numbers."""
    attrs = Conv1DAttrs(
        per_axis(strides, 1, "strides"),
        pad_tuple(padding, 1),
        per_axis(dilation, 1, "dilation"),
        groups,
        channels,
        attr_or_none(kernel_size, 1),
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )
    return make_call("nn.conv1d", [data, weight], attrs)


def conv2d(
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
    """2-d convolution. Source: ``relay.nn.conv2d``. Raises UserError for a wrong count of numbers."""
    attrs = Conv2DAttrs(
        per_axis(strides, 2, "strides"),
        pad_tuple(padding, 2),
        per_axis(dilation, 2, "dilation"),
        groups,
        channels,
        attr_or_none(kernel_size, 2),
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )
    return make_call("nn.conv2d", [data, weight], attrs)


def conv3d(
    data: RelayExpr,
    weight: RelayExpr,
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
    """3-d convolution. Source: ``relay.nn.conv3d``. Raises UserError for a wrong count of numbers."""
    attrs = Conv3DAttrs(
        per_axis(strides, 3, "strides"),
        pad_tuple(padding, 3),
        per_axis(dilation, 3, "dilation"),
        groups,
        channels,
        attr_or_none(kernel_size, 3),
        data_layout,
        kernel_layout,
        out_layout,
        out_dtype,
    )
    return make_call("nn.conv3d", [data, weight], attrs)


_SAMPLES: dict[int, list[Sample]] = {
    1: [
        Sample([(2, 4, 11), (6, 2, 3)], {"strides": (2,), "padding": (1, 2), "groups": 2}),
        Sample([(1, 9, 3), (3, 5, 3)], {"dilation": (2,), "data_layout": "NWC", "kernel_layout": "WOI"}),
    ],
    2: [
        Sample([(2, 3, 7, 9), (4, 3, 3, 3)], {"padding": (1, 1, 1, 1)}),
        Sample([(1, 4, 9, 8), (6, 2, 3, 2)], {"strides": (2, 1), "padding": (0, 1, 2, 0), "groups": 2}),
        Sample([(1, 3, 11, 11), (2, 3, 3, 3)], {"dilation": (2, 3), "padding": (1,)}),
        Sample([(1, 4, 6, 7), (2, 3, 2, 3, 3)], {"groups": 2, "kernel_layout": "GOIHW", "padding": (1, 0, 1, 0)}),
        Sample([(1, 4, 6, 7), (4, 1, 3, 3)], {"groups": 4, "padding": (1, 1, 1, 1), "strides": (2, 2)}),
        Sample([(1, 6, 7, 3), (3, 3, 3, 5)], {"data_layout": "NHWC", "kernel_layout": "HWIO"}),
        Sample([(1, 6, 7, 3), (5, 1, 1, 3)], {"data_layout": "NHWC", "kernel_layout": "OHWI", "out_layout": "NCHW"}),
        Sample([(1, 6, 5, 3), (3, 3, 3, 2)], {"data_layout": "NHWC", "kernel_layout": "HWOI", "groups": 3}),
        Sample([(1, 3, 5, 5), (2, 3, 3, 3)], {"out_dtype": "int32"}, dtype="int8", low=-100, high=100),
    ],
    3: [Sample([(1, 4, 5, 6, 4), (4, 2, 2, 3, 3)], {"strides": (1, 2, 1), "padding": (1, 0, 1), "groups": 2})],
}
# which kernels go with which data, plain and with one input channel for each group
_KERNELS: dict[int, dict[str, tuple[str, str]]] = {
    1: same_kernels({"NCW": "OIW", "NWC": "WIO"}),
    2: {"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI"), "HWNC": ("HWOI", "HWOI")},
    3: same_kernels({"NCDHW": "OIDHW", "NDHWC": "DHWIO"}),
}
_Of = TypeVar("_Of", Conv1DAttrs, Conv2DAttrs, Conv3DAttrs)


def _register(n: int, attrs: type[_Of]) -> None:
    register_op(
        f"nn.conv{n}d",
        inputs=("data", "weight"),
        rel=_relation(n),
        doc=f"Convolution over {n} spatial axes.",
        attrs=attrs,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=convolution(_KERNELS[n]),
        compute=_compute(n),
        code_for=one_dtype_or_result,
        operations=_operations(n),
        infer_inputs=conv_weight(n),
        samples=_SAMPLES[n],
    )


_register(1, Conv1DAttrs)
_register(2, Conv2DAttrs)
_register(3, Conv3DAttrs)
