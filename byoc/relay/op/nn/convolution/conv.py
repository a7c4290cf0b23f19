"""Convolutions: ``nn.conv1d``, ``nn.conv2d``, ``nn.conv3d``. Source: ``relay.nn.conv2d`` and its kin.

Every order of the axes is taken as a layout; padding is kept as Relay keeps it, all before and then all after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from byoc.ir.op import ComputeOf, CountOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.traits import convolution, same_kernels
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import Conv1DAttrs, Conv2DAttrs, Conv3DAttrs, ConvAttrs
from byoc.relay.op.core.arguments import DataAndWeight, Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.untyped_inputs import conv_weight
from byoc.relay.op.nn.convolution.compute import conv_stages
from byoc.relay.op.nn.convolution.geometry import (
    conv_geometry,
    conv_operations,
    has_group_axis,
    merged_stage,
    one_dtype_or_result,
    types_of,
)
from byoc.te import Tensor


@dataclass(eq=False, repr=False)
class ConvOptions(WindowArguments):
    """What is said of a 1-d convolution beside its inputs."""

    AXES = 1
    strides: Ints = 1
    padding: Ints = 0
    dilation: Ints = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: Ints | None = None
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(eq=False, repr=False)
class Conv2DOptions(ConvOptions):
    """What is said of a 2-d convolution beside its inputs."""

    AXES = 2
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"


@dataclass(eq=False, repr=False)
class Conv3DOptions(ConvOptions):
    """What is said of a 3-d convolution beside its inputs."""

    AXES = 3
    strides: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    dilation: Ints = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"


@dataclass(eq=False, repr=False)
class Conv1DArguments(ConvOptions, DataAndWeight):
    """Arguments of ``conv1d``."""


@dataclass(eq=False, repr=False)
class Conv2DArguments(Conv2DOptions, DataAndWeight):
    """Arguments of ``conv2d``, and of it as a product of matrices."""


@dataclass(eq=False, repr=False)
class Conv3DArguments(Conv3DOptions, DataAndWeight):
    """Arguments of ``conv3d``."""


@dataclass(eq=False, repr=False)
class TransposeOptions(WindowArguments):
    """What is said of a 1-d transposed convolution beside its inputs."""

    AXES = 1
    strides: Ints = (1,)
    padding: Ints = (0,)
    dilation: Ints = (1,)
    channels: int | None = None
    kernel_size: Ints | None = None
    groups: int = 1
    data_layout: str = "NCW"
    kernel_layout: str = "IOW"
    out_layout: str = ""
    output_padding: Ints = (0,)
    out_dtype: str = ""


@dataclass(eq=False, repr=False)
class Transpose2DOptions(TransposeOptions):
    """What is said of a 2-d transposed convolution beside its inputs."""

    AXES = 2
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    output_padding: Ints = (0, 0)


@dataclass(eq=False, repr=False)
class Transpose3DOptions(TransposeOptions):
    """What is said of a 3-d transposed convolution beside its inputs."""

    AXES = 3
    strides: Ints = (1, 1, 1)
    padding: Ints = (0, 0, 0)
    dilation: Ints = (1, 1, 1)
    data_layout: str = "NCDHW"
    kernel_layout: str = "IODHW"
    output_padding: Ints = (0, 0, 0)


@dataclass(eq=False, repr=False)
class Transpose1DArguments(TransposeOptions, DataAndWeight):
    """Arguments of ``conv1d_transpose``."""


@dataclass(eq=False, repr=False)
class Transpose2DArguments(Transpose2DOptions, DataAndWeight):
    """Arguments of ``conv2d_transpose``."""


@dataclass(eq=False, repr=False)
class Transpose3DArguments(Transpose3DOptions, DataAndWeight):
    """Arguments of ``conv3d_transpose``."""


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


@takes_fields_of(Conv1DArguments)
def conv1d(given: Conv1DArguments) -> Call:
    """1-d convolution. Source: ``relay.nn.conv1d``. Raises UserError for a wrong count of numbers."""
    return make_call("nn.conv1d", [given.data, given.weight], given.attrs(Conv1DAttrs))


@takes_fields_of(Conv2DArguments)
def conv2d(given: Conv2DArguments) -> Call:
    """2-d convolution. Source: ``relay.nn.conv2d``. Raises UserError for a wrong count of numbers."""
    return make_call("nn.conv2d", [given.data, given.weight], given.attrs(Conv2DAttrs))


@takes_fields_of(Conv3DArguments)
def conv3d(given: Conv3DArguments) -> Call:
    """3-d convolution. Source: ``relay.nn.conv3d``. Raises UserError for a wrong count of numbers."""
    return make_call("nn.conv3d", [given.data, given.weight], given.attrs(Conv3DAttrs))


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
        inputs=Inputs(("data", "weight"), infer=conv_weight(n)),
        rel=_relation(n),
        doc=f"Convolution over {n} spatial axes.",
        attrs=attrs,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=convolution(_KERNELS[n]),
        compute=Implementation(_compute(n), code_for=one_dtype_or_result),
        operations=_operations(n),
        samples=_SAMPLES[n],
    ).set_support_level(2)


_register(1, Conv1DAttrs)
_register(2, Conv2DAttrs)
_register(3, Conv3DAttrs)
