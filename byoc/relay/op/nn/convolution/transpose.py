"""Transposed convolutions: ``nn.conv1d_transpose``, ``nn.conv2d_transpose``, ``nn.conv3d_transpose``.

The kernel has the input's channels as I and the output channels of one group as O. Source:
``relay.nn.conv2d_transpose`` and its kin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from byoc.ir.op import ComputeOf, CountOf, OpPattern, RelationOf, Sample, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.traits import ProductForm, convolution, same_kernels
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import (
    Conv1DTransposeAttrs,
    Conv2DTransposeAttrs,
    Conv3DTransposeAttrs,
    TransposedAttrs,
)
from byoc.relay.op.core.arguments import Ints, takes_fields_of
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.untyped_inputs import conv_weight
from byoc.relay.op.nn.convolution.conv import Transpose1DArguments, Transpose2DArguments, Transpose3DArguments
from byoc.relay.op.nn.convolution.geometry import (
    has_group_axis,
    merged_stage,
    one_dtype_or_result,
    transposed_geometry,
    transposed_operations,
    types_of,
)
from byoc.relay.op.nn.convolution.transpose_compute import transposed_stages
from byoc.te import Tensor


def _relation(n: int) -> RelationOf[TransposedAttrs]:
    def relation(types: Sequence[Type], attrs: TransposedAttrs) -> TensorType:
        return transposed_geometry(types, attrs, n).result(attrs.out_layout or attrs.data_layout)

    return relation


def _compute(n: int) -> ComputeOf[TransposedAttrs, Tensor, Type]:
    def compute(attrs: TransposedAttrs, inputs: Sequence[Tensor], out_type: Type) -> list[Tensor]:
        (data, weight), plain = inputs, attrs
        if has_group_axis(attrs.kernel_layout):
            weight = merged_stage(weight, attrs.kernel_layout, "I")
            plain = replace(attrs, kernel_layout=attrs.kernel_layout[1:])
        return [transposed_stages(data, weight, plain, transposed_geometry(types_of(inputs), attrs, n))]

    return compute


def _operations(n: int) -> CountOf[TransposedAttrs, Type]:
    return lambda attrs, types, out_type: transposed_operations(transposed_geometry(types, attrs, n))


def _extra(output_padding: Ints) -> tuple[int, ...]:
    """One number, or two of which the first counts, as in Relay."""
    return (output_padding,) if isinstance(output_padding, int) else tuple(output_padding)[:2]


@takes_fields_of(Transpose1DArguments)
def conv1d_transpose(given: Transpose1DArguments) -> Call:
    """1-d transposed convolution. Source: ``relay.nn.conv1d_transpose``. Raises UserError for a wrong count."""
    attrs = given.attrs(Conv1DTransposeAttrs, output_padding=_extra(given.output_padding))
    return make_call("nn.conv1d_transpose", [given.data, given.weight], attrs)


@takes_fields_of(Transpose2DArguments)
def conv2d_transpose(given: Transpose2DArguments) -> Call:
    """2-d transposed convolution. Source: ``relay.nn.conv2d_transpose``. Raises UserError for a wrong count."""
    attrs = given.attrs(Conv2DTransposeAttrs)
    return make_call("nn.conv2d_transpose", [given.data, given.weight], attrs)


@takes_fields_of(Transpose3DArguments)
def conv3d_transpose(given: Transpose3DArguments) -> Call:
    """3-d transposed convolution. Source: ``relay.nn.conv3d_transpose``. Raises UserError for a wrong count."""
    attrs = given.attrs(Conv3DTransposeAttrs)
    return make_call("nn.conv3d_transpose", [given.data, given.weight], attrs)


_SAMPLES: dict[int, list[Sample]] = {
    1: [Sample([(2, 4, 5), (4, 3, 4)], {"strides": (3,), "padding": (1, 2), "output_padding": (2,)})],
    2: [
        Sample([(1, 3, 4, 5), (3, 2, 3, 3)], {"strides": (2, 2), "padding": (1,), "output_padding": (1, 1)}),
        Sample([(2, 4, 3, 4), (4, 3, 2, 3)], {"groups": 2, "dilation": (2, 1), "strides": (1, 3)}),
        Sample([(1, 3, 4, 2), (3, 3, 5, 2)], {"data_layout": "NHWC", "kernel_layout": "HWOI", "padding": (1, 0)}),
        Sample([(1, 4, 3, 4), (2, 2, 3, 2, 3)], {"groups": 2, "kernel_layout": "GIOHW", "strides": (2, 1)}),
        Sample([(1, 4, 3, 3), (4, 1, 2, 2)], {"groups": 4, "strides": (2, 2), "padding": (0, 1, 1, 0)}),
        Sample([(1, 2, 3, 4), (2, 3, 3, 2)], {"padding": (1, 0), "output_padding": (2, 1)}),
    ],
    3: [Sample([(1, 2, 3, 2, 3), (2, 2, 2, 3, 2)], {"strides": (2, 1, 2), "padding": (1, 0, 1)})],
}
_KERNELS: dict[int, dict[str, tuple[str, str]]] = {
    1: same_kernels({"NCW": "IOW", "NWC": "WOI"}),
    2: same_kernels({"NCHW": "IOHW", "NHWC": "HWOI"}),
    3: same_kernels({"NCDHW": "IODHW", "NDHWC": "DHWOI"}),
}
_Of = TypeVar("_Of", Conv1DTransposeAttrs, Conv2DTransposeAttrs, Conv3DTransposeAttrs)


def _register(n: int, attrs: type[_Of]) -> None:
    register_op(
        f"nn.conv{n}d_transpose",
        inputs=Inputs(("data", "weight"), infer=conv_weight(n, transposed=True)),
        rel=_relation(n),
        doc=f"Transposed convolution over {n} spatial axes.",
        attrs=attrs,
        pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
        traits=convolution(_KERNELS[n], ProductForm.TRANSPOSED_CONVOLUTION),
        compute=Implementation(_compute(n), code_for=one_dtype_or_result),
        operations=_operations(n),
        samples=_SAMPLES[n],
    ).set_support_level(2)


_register(1, Conv1DTransposeAttrs)
_register(2, Conv2DTransposeAttrs)
_register(3, Conv3DTransposeAttrs)
