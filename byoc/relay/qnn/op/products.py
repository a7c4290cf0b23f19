"""Quantized products: ``qnn.conv2d``, ``qnn.conv2d_transpose``, ``qnn.dense``, ``qnn.batch_matmul`` and their packs.

The result is in units of the product of both scales, with zero point 0; ``qnn.requantize`` brings it back. Source:
``relay/qnn/op/{convolution,convolution_transpose,dense,batch_matmul}.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, RelationOf, Sample, get_op, register_op
from byoc.ir.traits import ProductForm, convolution, quantized_product, same_kernels
from byoc.ir.types import Any, Dim, TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.attributes.convolution import BatchMatmulAttrs, Conv2DAttrs, Conv2DTransposeAttrs, DenseAttrs
from byoc.relay.op.core.arguments import Arguments, Ints, WindowArguments, takes_fields_of
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import tensor_arg
from byoc.relay.op.core.window import differ
from byoc.relay.op.nn.convolution.conv import Transpose2DOptions
from byoc.relay.op.nn.convolution.geometry import Geometry, conv_geometry, transposed_geometry
from byoc.relay.op.nn.dense_pack import DensePackAttrs
from byoc.relay.qnn.op.type_relations import (
    PRODUCTS,
    SCALE,
    ZERO_POINT,
    check_dtype,
    check_scalar,
    check_vector,
    data_of,
)

P = TypeVar("P", Conv2DAttrs, Conv2DTransposeAttrs, DenseAttrs, DensePackAttrs, BatchMatmulAttrs)  # of a product
SUMS = ("int16", "int32", "int64")
INPUTS = ("data", "weight", "input_zero_point", "kernel_zero_point", "input_scale", "kernel_scale")


def _check_product(types: Sequence[Type], out_dtype: str, channels: Callable[[], Dim]) -> None:
    """Check dtypes, the input's scalars and the kernel's numbers, of which there may be one for each channel."""
    data_of(types, 0, "data", PRODUCTS)
    data_of(types, 1, "weight", ("int8", "uint8"))
    check_dtype("out_dtype", out_dtype, SUMS)
    check_scalar(types[2], "input_zero_point", ZERO_POINT)
    check_scalar(types[4], "input_scale", SCALE)
    check_vector(types[3], "kernel_zero_point", ZERO_POINT, channels())
    check_vector(types[5], "kernel_scale", SCALE, channels())


def _like_plain(name: str, channels: Callable[[Sequence[Type], P], Dim]) -> RelationOf[P]:
    """The relation of a quantized product whose shapes are those of the plain operator *name*."""

    def relation(types: Sequence[Type], attrs: P) -> Type:
        _check_product(types, attrs.out_dtype, lambda: channels(types, attrs))
        return get_op(name).result_type(types[:2], attrs)

    return relation


def _known_kernel(geometry: Geometry) -> Geometry:
    """*geometry* itself. Raises TypeInferenceError for a kernel of unknown size, by which zero points are corrected."""
    if any(isinstance(size, Any) for size in (geometry.out, geometry.reduced, *geometry.kernel)):
        raise TypeInferenceError("a quantized convolution needs a kernel whose sizes are known when compiling")
    return geometry


def _packed_rows(weight: TensorType) -> Dim:
    """The outputs of a weight in blocks: [N/n, K/k, n, k], [N/n, K, n] or [N, K]."""
    if weight.ndim not in (2, 3, 4):
        raise TypeInferenceError(f"weight must have 2 to 4 dimensions, got {weight}")
    rows, block = weight.shape[0], weight.shape[2] if weight.ndim > 2 else 1
    return rows if block == 1 else _product(rows, block)


def _product(a: Dim, b: Dim) -> Dim:
    return a * b if isinstance(a, int) and isinstance(b, int) else Any()


def _dense_pack_rel(types: Sequence[Type], attrs: DensePackAttrs) -> Type:
    data, weight = tensor_arg(types, 0), tensor_arg(types, 1, "weight")
    rows = _packed_rows(weight)
    _check_product(types, attrs.out_dtype, lambda: rows)
    depth = _product(weight.shape[1], weight.shape[3]) if weight.ndim == 4 else weight.shape[1]
    if data.ndim < 1 or differ(data.shape[-1], depth):
        raise TypeInferenceError(f"data is {data}, the weight expects {depth} features")
    if attrs.units is not None and differ(attrs.units, rows):
        raise TypeInferenceError(f"units is {attrs.units}, the weight gives {rows}")
    return TensorType((*data.shape[:-1], rows), attrs.out_dtype)


def _batch_matmul_rel(types: Sequence[Type], attrs: BatchMatmulAttrs) -> Type:
    data_of(types, 0, "x", PRODUCTS)
    data_of(types, 1, "y", PRODUCTS)
    check_dtype("out_dtype", attrs.out_dtype, SUMS)
    for k, (name, dtype) in enumerate(
        (("x_zero_point", ZERO_POINT), ("y_zero_point", ZERO_POINT), ("x_scale", SCALE), ("y_scale", SCALE)), 2
    ):
        check_scalar(types[k], name, dtype)
    return get_op("nn.batch_matmul").result_type(types[:2], attrs)


def _parameters(zero: int, kernel_zero: int | Sequence[int], scales: float | Sequence[float] = 0.5) -> list[np.ndarray]:
    return [
        np.array(zero, "int32"),
        np.array(kernel_zero, "int32"),
        np.array(0.25, "float32"),
        np.array(scales, "float32"),
    ]


def _bytes(dtype: str, *shape: int) -> np.ndarray:
    """Numbers that cover the range of *dtype*, the same each time."""
    return (np.arange(int(np.prod(shape))) * 37 % 256).astype("uint8").view(dtype).reshape(shape)


register_op(
    "qnn.conv2d",
    inputs=INPUTS,
    attrs=Conv2DAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=convolution({"NCHW": ("OIHW", "OIHW"), "NHWC": ("HWIO", "HWOI"), "HWNC": ("HWOI", "HWOI")}, quantized=True),
    rel=_like_plain("nn.conv2d", lambda types, attrs: _known_kernel(conv_geometry(types, attrs, 2)).out),
    operations=lambda attrs, types, out: get_op("nn.conv2d").count_operations(attrs, types[:2], out),
    doc="The 2-d convolution of quantized tensors, in units of both scales.",
    samples=(
        Sample(
            [_bytes("uint8", 1, 4, 5, 6), _bytes("int8", 3, 4, 3, 3), *_parameters(7, 3)],
            {"padding": (1, 1, 0, 2), "strides": (2, 1), "out_dtype": "int32"},
        ),
        Sample(
            [_bytes("int8", 1, 5, 6, 4), _bytes("int8", 3, 3, 4, 2), *_parameters(-7, 3, [0.5] * 8)],
            {"groups": 4, "data_layout": "NHWC", "kernel_layout": "HWOI", "out_dtype": "int32"},
        ),
        Sample(
            [_bytes("uint8", 1, 4, 6, 6), _bytes("uint8", 4, 2, 3, 3), *_parameters(9, [1, 2, 3, 250])],
            {"groups": 2, "dilation": (2, 1), "out_dtype": "int32"},
        ),
    ),
)
register_op(
    "qnn.conv2d_transpose",
    inputs=INPUTS,
    attrs=Conv2DTransposeAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=convolution(
        same_kernels({"NCHW": "IOHW", "NHWC": "HWIO"}), ProductForm.TRANSPOSED_CONVOLUTION, quantized=True
    ),
    rel=_like_plain(
        "nn.conv2d_transpose", lambda types, attrs: _known_kernel(transposed_geometry(types, attrs, 2)).out
    ),
    operations=lambda attrs, types, out: get_op("nn.conv2d_transpose").count_operations(attrs, types[:2], out),
    doc="The transposed 2-d convolution of quantized tensors, in units of both scales.",
    samples=(
        Sample(
            [_bytes("uint8", 1, 4, 3, 3), _bytes("int8", 4, 3, 3, 3), *_parameters(7, 3)],
            {"padding": (1, 0, 1, 0), "strides": (2, 2), "out_dtype": "int32"},
        ),
    ),
)
register_op(
    "qnn.dense",
    inputs=INPUTS,
    attrs=DenseAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=quantized_product(ProductForm.DENSE),
    rel=_like_plain("nn.dense", lambda types, attrs: tensor_arg(types, 1, "weight").shape[0]),
    operations=lambda attrs, types, out: get_op("nn.dense").count_operations(attrs, types[:2], out),
    doc="The product of a quantized tensor with a transposed quantized matrix, in units of both scales.",
    samples=(
        Sample([_bytes("uint8", 3, 7), _bytes("int8", 5, 7), *_parameters(7, 3)], {"units": 5, "out_dtype": "int32"}),
        Sample(
            [_bytes("int8", 2, 3, 7), _bytes("int8", 2, 7), *_parameters(-7, [0, 5], [1.0, 2.0])],
            {"out_dtype": "int32"},
        ),
    ),
)
register_op(
    "qnn.contrib_dense_pack",
    inputs=INPUTS,
    attrs=DensePackAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=quantized_product(ProductForm.PACKED_DENSE),
    rel=_dense_pack_rel,
    doc="qnn.dense with the weight in blocks.",
    samples=(
        Sample(
            [_bytes("uint8", 3, 8), _bytes("int8", 2, 2, 3, 4), *_parameters(7, 3)],
            {"units": 6, "out_dtype": "int32", "weight_layout": "NC3n4c"},
        ),
    ),
)
register_op(
    "qnn.batch_matmul",
    inputs=("x", "y", "x_zero_point", "y_zero_point", "x_scale", "y_scale"),
    attrs=BatchMatmulAttrs,
    pattern=OpPattern.OUT_ELEMWISE_FUSABLE,
    traits=quantized_product(ProductForm.MATRICES),
    rel=_batch_matmul_rel,
    operations=lambda attrs, types, out: get_op("nn.batch_matmul").count_operations(attrs, types[:2], out),
    doc="A product of two quantized matrices for each batch item, in units of both scales.",
    samples=(
        Sample(
            [_bytes("uint8", 2, 3, 7), _bytes("int8", 2, 5, 7), *_parameters(7, 3)],
            {"out_dtype": "int32", "transpose_b": True},
        ),
        Sample(
            [_bytes("int8", 1, 3, 7), _bytes("int8", 2, 5, 7), *_parameters(0, -3)],
            {"out_dtype": "int32", "transpose_b": True},
        ),
    ),
)


@dataclass(eq=False, repr=False)
class Factors(Arguments):
    """What a product multiplies."""

    data: Operand
    weight: Operand


@dataclass(eq=False, repr=False)
class DataAndKernel(Arguments):
    """What a convolution multiplies."""

    data: Operand
    kernel: Operand


@dataclass(eq=False, repr=False)
class Quantization(Arguments):
    """The zero points and the scales of a product's two inputs."""

    input_zero_point: Operand
    kernel_zero_point: Operand
    input_scale: Operand
    kernel_scale: Operand


@dataclass(eq=False, repr=False)
class QuantizedFactors(Quantization, Factors):
    """The inputs of a quantized product."""


@dataclass(eq=False, repr=False)
class Conv2DArguments(WindowArguments, Quantization, DataAndKernel):
    """Arguments of ``qnn.op.conv2d``."""

    AXES = 2
    kernel_size: Ints | None
    channels: int | None
    strides: Ints = (1, 1)
    padding: Ints = (0, 0)
    dilation: Ints = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = "int32"


@dataclass(eq=False, repr=False)
class Conv2DTransposeArguments(Transpose2DOptions, QuantizedFactors):
    """Arguments of ``qnn.op.conv2d_transpose``."""

    out_dtype: str = "int32"


@dataclass(eq=False, repr=False)
class DenseArguments(QuantizedFactors):
    """Arguments of ``qnn.op.dense``."""

    units: int | None
    out_dtype: str = "int32"


@dataclass(eq=False, repr=False)
class DensePackArguments(QuantizedFactors):
    """Arguments of ``qnn.op.contrib_dense_pack``."""

    kernel_layout: str = "NC"
    units: int | None = None
    out_dtype: str = "int32"


def _operands(data: Operand, weight: Operand, numbers: Quantization) -> list[RelayExpr]:
    return [
        as_expr(data),
        as_expr(weight),
        as_expr(numbers.input_zero_point, ZERO_POINT),
        as_expr(numbers.kernel_zero_point, ZERO_POINT),
        as_expr(numbers.input_scale, SCALE),
        as_expr(numbers.kernel_scale, SCALE),
    ]


@takes_fields_of(Conv2DArguments)
def conv2d(given: Conv2DArguments) -> Call:
    """2-d convolution of quantized tensors. Source: ``relay.qnn.op.conv2d``.

    Raises UserError for a wrong count of numbers.
    """
    attrs = given.attrs(Conv2DAttrs, out_dtype=str(given.out_dtype))
    return make_call("qnn.conv2d", _operands(given.data, given.kernel, given), attrs)


@takes_fields_of(Conv2DTransposeArguments)
def conv2d_transpose(given: Conv2DTransposeArguments) -> Call:
    """Transposed 2-d convolution of quantized tensors. Source: ``relay.qnn.op.conv2d_transpose``.

    Raises UserError for a wrong count of numbers.
    """
    attrs = given.attrs(Conv2DTransposeAttrs, out_dtype=str(given.out_dtype))
    return make_call("qnn.conv2d_transpose", _operands(given.data, given.weight, given), attrs)


@takes_fields_of(DenseArguments)
def dense(given: DenseArguments) -> Call:
    """``data @ weight.T`` of quantized tensors. Source: ``relay.qnn.op.dense``."""
    attrs = given.attrs(DenseAttrs, out_dtype=str(given.out_dtype))
    return make_call("qnn.dense", _operands(given.data, given.weight, given), attrs)


@takes_fields_of(DensePackArguments)
def contrib_dense_pack(given: DensePackArguments) -> Call:
    """``qnn.dense`` with a weight in blocks, named by *kernel_layout*. Source: ``relay.qnn.op.contrib_dense_pack``."""
    attrs = given.attrs(DensePackAttrs, out_dtype=str(given.out_dtype), weight_layout=given.kernel_layout)
    return make_call("qnn.contrib_dense_pack", _operands(given.data, given.weight, given), attrs)


def batch_matmul(
    x: Operand,
    y: Operand,
    x_zero_point: Operand,
    y_zero_point: Operand,
    x_scale: Operand,
    y_scale: Operand,
    out_dtype: str = "int32",
) -> Call:
    """``x @ y.T`` of quantized matrices for each batch item. Source: ``relay.qnn.op.batch_matmul``."""
    args = _operands(x, y, Quantization(x_zero_point, y_zero_point, x_scale, y_scale))
    return make_call("qnn.batch_matmul", args, BatchMatmulAttrs(str(out_dtype), False, True))
