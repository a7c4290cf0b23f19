"""Products of numbers of few bits: ``nn.bitpack``, ``nn.bitserial_conv2d``, ``nn.bitserial_dense``.

A product is the sum over all pairs of bits of shifted products of bits. With *unipolar* a bit of a weight stands for -1
or 1, so that a weight ``w`` of ``b`` bits means ``2 w - (2**b - 1)``. Source: ``relay/op/nn/bitserial.cc`` and
``topi.nn.bitserial_util``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.traits import OpKind, ProductForm, Traits
from byoc.ir.types import Dim, TensorType, Type, dtype_bytes
from byoc.relay.expr import Call
from byoc.relay.op.core.arguments import Arguments, Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_integer, tensor_arg
from byoc.relay.op.core.window import arranged, axes_of, pad_pairs, tensor_of, window_extent


@dataclass(frozen=True)
class BitPackAttrs(Attrs):
    """Attributes of ``nn.bitpack``: which axis is packed, and where the axis of the bits is put."""

    bits: int = 1
    pack_axis: int = 1
    bit_axis: int = -1
    pack_type: str = "uint32"
    name: str = "BitPack"


@dataclass(frozen=True)
class BinaryConv2DAttrs(Attrs):
    """Attributes of ``nn.bitserial_conv2d``."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = (3, 3)
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


@dataclass(frozen=True)
class BinaryDenseAttrs(Attrs):
    """Attributes of ``nn.bitserial_dense``."""

    units: int | None = None
    data_bits: int = 1
    weight_bits: int = 1
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


def _bitpack_rel(types: Sequence[Type], attrs: BitPackAttrs) -> Type:
    data = tensor_arg(types, 0)
    if not 0 <= attrs.pack_axis < data.ndim or not 0 <= attrs.bit_axis <= data.ndim or attrs.bits < 1:
        raise TypeInferenceError(f"pack_axis {attrs.pack_axis} or bit_axis {attrs.bit_axis} does not fit {data}")
    width, size = dtype_bytes(attrs.pack_type) * 8, data.shape[attrs.pack_axis]
    if not is_integer(data.dtype) or not attrs.pack_type.startswith("uint"):
        raise TypeInferenceError(f"packs integers into unsigned ones, got {data.dtype} and {attrs.pack_type}")
    if not isinstance(size, int) or size % width:
        raise TypeInferenceError(f"axis {attrs.pack_axis} of {data} is no multiple of the {width} bits of a word")
    shape: list[Dim] = [size // width if k == attrs.pack_axis else d for k, d in enumerate(data.shape)]
    return TensorType((*shape[: attrs.bit_axis], attrs.bits, *shape[attrs.bit_axis :]), attrs.pack_type)


_WORDS = np.arange(64, dtype="int32").reshape(2, 32, 1) % 8
register_op(
    "nn.bitpack",
    inputs=("data",),
    attrs=BitPackAttrs,
    rel=_bitpack_rel,
    doc="The bits of integers, those of one place packed into words along an axis, the first one highest.",
    samples=(
        Sample([_WORDS], {"bits": 3, "pack_axis": 1, "bit_axis": 2}),
        Sample([_WORDS.astype("uint8")], {"bits": 2, "pack_axis": 1, "bit_axis": 0, "pack_type": "uint8"}),
        Sample([_WORDS], {"bits": 1, "pack_axis": 1, "bit_axis": 3, "pack_type": "uint16"}),
    ),
).set_support_level(2)


def bitpack(
    data: Operand,
    bits: int = 1,
    pack_axis: int = 1,
    bit_axis: int = 2,
    pack_type: str = "uint32",
    name: str = "BitPack",
) -> Call:
    """*data* as words of bits: the axis *pack_axis* shrinks by the width of *pack_type*, *bit_axis* is new.

    Source: ``relay.nn.bitpack``.
    """
    return make_call("nn.bitpack", [as_expr(data)], BitPackAttrs(bits, pack_axis, bit_axis, pack_type, name))


def _bitserial_conv_rel(types: Sequence[Type], attrs: BinaryConv2DAttrs) -> Type:
    data = tensor_of(types[0], 4, "data")
    if attrs.channels is None or attrs.kernel_size is None:
        raise TypeInferenceError("channels and kernel_size must be given, for the weight may be packed")
    n, _, *sizes = (data.shape[a] for a in axes_of(attrs.data_layout, "NCHW", "data"))
    steps = zip(sizes, attrs.kernel_size, attrs.strides, (1, 1), pad_pairs(attrs.padding, 2), strict=True)
    dims = (n, attrs.channels, *(window_extent(*step) for step in steps))
    weight = tensor_arg(types, 1, "weight")
    if weight.ndim not in (4, 5):
        raise TypeInferenceError(f"weight must have 4 axes, or 5 where it is packed, got {weight}")
    return TensorType(arranged(dims, "NCHW", attrs.data_layout), attrs.out_dtype)


register_op(
    "nn.bitserial_conv2d",
    inputs=("data", "weight"),
    attrs=BinaryConv2DAttrs,
    rel=_bitserial_conv_rel,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="Convolution of numbers of few bits.",
    samples=(
        Sample(
            [(1, 4, 5, 6), (3, 4, 3, 3)], {"channels": 3, "activation_bits": 2, "padding": (1, 1, 1, 1)}, "uint8", 0, 2
        ),
        Sample(
            [(1, 5, 6, 4), (3, 3, 4, 2)],
            {
                "channels": 2,
                "activation_bits": 2,
                "weight_bits": 2,
                "data_layout": "NHWC",
                "kernel_layout": "HWIO",
                "out_dtype": "int32",
                "unipolar": False,
                "strides": (2, 1),
            },
            "uint8",
            0,
            4,
        ),
        Sample(
            [(1, 8, 3, 3), np.array([[[[[0x5A]]]], [[[[0xF0]]]]], "uint8")],
            {"channels": 2, "kernel_size": (1, 1), "pack_dtype": "uint8"},
            "uint8",
            0,
            2,
        ),
    ),
).set_support_level(2)


@dataclass(eq=False, repr=False)
class BitSerialConv2DArguments(WindowArguments):
    """Arguments of ``bitserial_conv2d``."""

    AXES = 2
    data: Operand
    weight: Operand
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    channels: int | None = None
    kernel_size: Ints = (3, 3)
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


@takes_fields_of(BitSerialConv2DArguments)
def bitserial_conv2d(given: BitSerialConv2DArguments) -> Call:
    """2-d convolution of numbers of few bits. Source: ``relay.nn.bitserial_conv2d``."""
    attrs = given.attrs(BinaryConv2DAttrs, unipolar=bool(given.unipolar))
    return make_call("nn.bitserial_conv2d", [as_expr(given.data), as_expr(given.weight)], attrs)


def _bitserial_dense_rel(types: Sequence[Type], attrs: BinaryDenseAttrs) -> Type:
    data, weight = tensor_of(types[0], 2, "data"), tensor_of(types[1], 2, "weight")
    units = weight.shape[0] if attrs.units is None else attrs.units
    if attrs.units is None and weight.shape[1] != data.shape[1]:
        raise TypeInferenceError(f"weight must be [{units}, {data.shape[1]}], got {weight}")
    return TensorType((data.shape[0], units), attrs.out_dtype)


register_op(
    "nn.bitserial_dense",
    inputs=("data", "weight"),
    attrs=BinaryDenseAttrs,
    rel=_bitserial_dense_rel,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=Traits(OpKind.PRODUCT, product=ProductForm.OTHER),
    doc="A product with a matrix of numbers of few bits.",
    samples=(
        Sample([(3, 8), (5, 8)], {"data_bits": 2}, "uint8", 0, 2),
        Sample(
            [(3, 8), (5, 8)], {"data_bits": 2, "weight_bits": 2, "unipolar": False, "out_dtype": "int32"}, "uint8", 0, 4
        ),
    ),
).set_support_level(2)


@dataclass(eq=False, repr=False)
class BitSerialDenseArguments(Arguments):
    """Arguments of ``bitserial_dense``."""

    data: Operand
    weight: Operand
    units: int | None = None
    data_bits: int = 1
    weight_bits: int = 1
    pack_dtype: str = "uint32"
    out_dtype: str = "int16"
    unipolar: bool = True


@takes_fields_of(BitSerialDenseArguments)
def bitserial_dense(given: BitSerialDenseArguments) -> Call:
    """``data [m, k] @ weight [n, k].T`` of numbers of few bits. Source: ``relay.nn.bitserial_dense``."""
    attrs = given.attrs(BinaryDenseAttrs, unipolar=bool(given.unipolar))
    return make_call("nn.bitserial_dense", [as_expr(given.data), as_expr(given.weight)], attrs)
