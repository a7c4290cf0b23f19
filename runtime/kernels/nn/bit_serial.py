"""Numpy kernels of products of numbers of few bits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import ConvAttributes, conv


@kernel("nn.bitpack")
def bitpack(
    data: np.ndarray, *, bits: int = 1, pack_axis: int = 1, bit_axis: int = 2, pack_type: str = "uint32"
) -> np.ndarray:
    """For each bit the words of its packed axis, whose first element is the highest bit."""
    width = np.dtype(pack_type).itemsize * 8
    shape = (*data.shape[:pack_axis], data.shape[pack_axis] // width, width, *data.shape[pack_axis + 1 :])
    groups = np.moveaxis(data.astype(np.int64).reshape(shape), pack_axis + 1, -1)
    places = np.arange(width - 1, -1, -1, dtype=np.uint64)
    words = [((groups >> bit & 1).astype(np.uint64) << places).sum(-1, dtype=np.uint64) for bit in range(bits)]
    return np.stack(words, axis=bit_axis).astype(pack_type)


def _weights(weight: np.ndarray, bits: int, unipolar: bool) -> np.ndarray:
    low = weight.astype(np.int64) & (1 << bits) - 1
    return 2 * low - ((1 << bits) - 1) if unipolar else low


def _unpacked(weight: np.ndarray, axis: int) -> np.ndarray:
    """The weights of which ``bitpack(weight, axis, 4)`` made *weight*."""
    width = weight.dtype.itemsize * 8
    places = np.arange(width - 1, -1, -1, dtype=np.uint64)
    bits = (weight[..., None].astype(np.uint64) >> places & np.uint64(1)).astype(np.int64)
    scales = 1 << np.arange(weight.shape[-1])
    values = np.moveaxis((bits * scales[:, None]).sum(-2), -1, axis + 1)
    result: np.ndarray = values.reshape(*weight.shape[:axis], weight.shape[axis] * width, *weight.shape[axis + 1 : -1])
    return result


@dataclass(frozen=True, kw_only=True)
class BitSerialConvAttributes(KernelAttributes):
    """Attributes of a convolution of few bits."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    activation_bits: int = 1
    weight_bits: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_dtype: str = "int16"
    unipolar: bool = True


@kernel("nn.bitserial_conv2d")
def bitserial_conv2d(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: BitSerialConvAttributes,
) -> np.ndarray:
    """A convolution of the low bits; a weight of five axes is packed along its input channels."""
    plain = _unpacked(weight, attrs.kernel_layout.index("I")) if weight.ndim == 5 else weight
    low = data.astype(np.int64) & (1 << attrs.activation_bits) - 1
    value = conv(
        low.astype(np.float64),
        _weights(plain, attrs.weight_bits, attrs.unipolar).astype(np.float64),
        attrs=ConvAttributes(
            strides=attrs.strides,
            padding=attrs.padding,
            dilation=(1, 1),
            data_layout=attrs.data_layout,
            kernel_layout=attrs.kernel_layout,
        ),
    )
    return value.astype(np.int64).astype(attrs.out_dtype)


@kernel("nn.bitserial_dense")
def bitserial_dense(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    data_bits: int = 1,
    weight_bits: int = 1,
    out_dtype: str = "int16",
    unipolar: bool = True,
) -> np.ndarray:
    """A product of the low bits."""
    low = data.astype(np.int64) & (1 << data_bits) - 1
    result: np.ndarray = (low @ _weights(weight, weight_bits, unipolar).T).astype(out_dtype)
    return result
