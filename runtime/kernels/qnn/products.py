"""Numpy kernels of quantized convolutions and matrix products: the zero points taken off, then exact sums.

The sums are made as float64, in which products of numbers below 2**17 add up exactly over 2**19 terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, pad_pairs, per_axis, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import ConvAttributes, TransposeAttributes, convolve, convolve_transposed
from byoc.runtime.kernels.nn.dense import finish
from byoc.runtime.kernels.qnn.parameters import scalar, spread

WORK = np.dtype(np.float64)
LETTERS = "NCHW"


def _shifted(data: np.ndarray, zero_point: np.ndarray, axis: int = 0) -> np.ndarray:
    return data.astype(WORK) - spread(zero_point, axis, data.ndim).astype(WORK)


@dataclass(frozen=True, kw_only=True)
class QuantizedConvAttributes(ConvAttributes):
    """Attributes of the quantized convolution."""

    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: str = "int32"


@kernel("qnn.conv2d")
def conv2d(
    data: np.ndarray,
    weight: np.ndarray,
    input_zero_point: np.ndarray,
    kernel_zero_point: np.ndarray,
    input_scale: np.ndarray,
    kernel_scale: np.ndarray,
    *,
    attrs: QuantizedConvAttributes,
) -> np.ndarray:
    """The convolution of the numbers that are meant, in units of both scales; padding means zero."""
    x = _shifted(to_letters(data, attrs.data_layout, LETTERS), input_zero_point)
    w = to_letters(weight, attrs.kernel_layout, "OIHW")
    if attrs.groups > 1 and attrs.groups == x.shape[1] == w.shape[0]:  # Relay's depthwise kernel: [C, multiplier, H, W]
        w = w.reshape(w.shape[0] * w.shape[1], 1, *w.shape[2:])
    w = _shifted(w, kernel_zero_point)
    strides, dilation = per_axis(attrs.strides, 2), per_axis(attrs.dilation, 2)
    value = convolve(x, w, strides, pad_pairs(attrs.padding, 2), dilation, attrs.groups)
    return from_letters(finish(value, numpy_dtype(attrs.out_dtype)), LETTERS, attrs.out_layout or attrs.data_layout)


@dataclass(frozen=True, kw_only=True)
class QuantizedTransposeAttributes(TransposeAttributes):
    """Attributes of the quantized transposed convolution."""

    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    out_dtype: str = "int32"


@kernel("qnn.conv2d_transpose")
def conv2d_transpose(
    data: np.ndarray,
    weight: np.ndarray,
    input_zero_point: np.ndarray,
    kernel_zero_point: np.ndarray,
    input_scale: np.ndarray,
    kernel_scale: np.ndarray,
    *,
    attrs: QuantizedTransposeAttributes,
) -> np.ndarray:
    """The transposed convolution of the numbers that are meant, in units of both scales."""
    x = _shifted(to_letters(data, attrs.data_layout, LETTERS), input_zero_point)
    w = to_letters(weight, attrs.kernel_layout, "IOHW").astype(WORK)
    if kernel_zero_point.size > 1:  # one for each output channel, group by group
        zeros = kernel_zero_point.reshape(attrs.groups, w.shape[1]).astype(WORK)
        w = w - np.repeat(zeros, w.shape[0] // attrs.groups, axis=0)[:, :, None, None]
    else:
        w = w - WORK.type(scalar(kernel_zero_point))
    strides, dilation, extra = (per_axis(v, 2) for v in (attrs.strides, attrs.dilation, attrs.output_padding))
    value = convolve_transposed(x, w, strides, pad_pairs(attrs.padding, 2), dilation, extra, attrs.groups)
    return from_letters(finish(value, numpy_dtype(attrs.out_dtype)), LETTERS, attrs.out_layout or attrs.data_layout)


@kernel("qnn.dense")
def dense(
    data: np.ndarray,
    weight: np.ndarray,
    input_zero_point: np.ndarray,
    kernel_zero_point: np.ndarray,
    input_scale: np.ndarray,
    kernel_scale: np.ndarray,
    *,
    out_dtype: str = "int32",
) -> np.ndarray:
    """data: [..., K], weight: [N, K] -> [..., N], in units of both scales."""
    value = _shifted(data, input_zero_point) @ _shifted(weight, kernel_zero_point).T
    return finish(value, numpy_dtype(out_dtype))


@dataclass(frozen=True, kw_only=True)
class DensePackAttributes(KernelAttributes):
    """Attributes of a quantized product with a weight in blocks."""

    out_dtype: str = "int32"
    weight_layout: str = "NC"


@kernel("qnn.contrib_dense_pack")
def contrib_dense_pack(
    data: np.ndarray,
    weight: np.ndarray,
    input_zero_point: np.ndarray,
    kernel_zero_point: np.ndarray,
    input_scale: np.ndarray,
    kernel_scale: np.ndarray,
    *,
    attrs: DensePackAttributes,
) -> np.ndarray:
    """``qnn.dense`` with a weight in blocks: [N/n, K/k, n, k] (``NC16n4c``), [N/n, K, n] or [N, K] -> [..., N]."""
    if weight.ndim == 4:
        rows, columns = weight.shape[0] * weight.shape[2], weight.shape[1] * weight.shape[3]
        weight = weight.transpose(0, 2, 1, 3).reshape(rows, columns)
    elif weight.ndim == 3:
        weight = weight.transpose(0, 2, 1).reshape(weight.shape[0] * weight.shape[2], weight.shape[1])
    numbers = (input_zero_point, kernel_zero_point, input_scale, kernel_scale)
    return dense(data, weight, *numbers, out_dtype=attrs.out_dtype)


@dataclass(frozen=True, kw_only=True)
class BatchMatmulAttributes(KernelAttributes):
    """Attributes of the quantized product of matrices."""

    out_dtype: str = "int32"
    transpose_a: bool = False
    transpose_b: bool = True


@kernel("qnn.batch_matmul")
def batch_matmul(
    x: np.ndarray,
    y: np.ndarray,
    x_zero_point: np.ndarray,
    y_zero_point: np.ndarray,
    x_scale: np.ndarray,
    y_scale: np.ndarray,
    *,
    attrs: BatchMatmulAttributes,
) -> np.ndarray:
    """x: [B, M, K], y: [B, N, K] -> [B, M, N], in units of both scales; a batch of 1 is repeated."""
    a = x.astype(WORK) - WORK.type(scalar(x_zero_point))
    b = y.astype(WORK) - WORK.type(scalar(y_zero_point))
    value = (np.swapaxes(a, 1, 2) if attrs.transpose_a else a) @ (np.swapaxes(b, 1, 2) if attrs.transpose_b else b)
    return finish(value, numpy_dtype(attrs.out_dtype))
