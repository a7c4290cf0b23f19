"""Attributes of the convolutions, plain, transposed and deformable, and of dense products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from byoc.ir.attrs import Attrs, written


@dataclass(frozen=True)
class Conv1DAttrs(Attrs):
    """Attributes of ``nn.conv1d``."""

    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCW"
    kernel_layout: str = "OIW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv2DAttrs(Attrs):
    """Attributes of ``nn.conv2d``; ``padding`` is (top, left, bottom, right)."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = written((0, 0, 0, 0))
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv3DAttrs(Attrs):
    """Attributes of ``nn.conv3d``; ``padding`` is (front, top, left, back, bottom, right)."""

    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = written((0, 0, 0, 0, 0, 0))
    dilation: tuple[int, ...] = (1, 1, 1)
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCDHW"
    kernel_layout: str = "OIDHW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv1DTransposeAttrs(Attrs):
    """Attributes of ``nn.conv1d_transpose``."""

    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    strides: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0, 0)
    output_padding: tuple[int, ...] = (0,)
    dilation: tuple[int, ...] = (1,)
    groups: int = 1
    data_layout: str = "NCW"
    kernel_layout: str = "IOW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv2DTransposeAttrs(Attrs):
    """Attributes of ``nn.conv2d_transpose``."""

    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = written((0, 0, 0, 0))
    output_padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, ...] = (1, 1)
    groups: int = 1
    data_layout: str = "NCHW"
    kernel_layout: str = "IOHW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class Conv3DTransposeAttrs(Attrs):
    """Attributes of ``nn.conv3d_transpose``."""

    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    strides: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = written((0, 0, 0, 0, 0, 0))
    output_padding: tuple[int, ...] = (0, 0, 0)
    dilation: tuple[int, ...] = (1, 1, 1)
    groups: int = 1
    data_layout: str = "NCDHW"
    kernel_layout: str = "IODHW"
    out_layout: str = ""
    out_dtype: str = ""


@dataclass(frozen=True)
class DeformableConv2DAttrs(Attrs):
    """Attributes of ``nn.deformable_conv2d``."""

    strides: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)
    dilation: tuple[int, ...] = (1, 1)
    deformable_groups: int = 1
    groups: int = 1
    channels: int | None = None
    kernel_size: tuple[int, ...] | None = None
    data_layout: str = "NCHW"
    kernel_layout: str = "OIHW"
    out_layout: str = ""
    out_dtype: str = ""


ConvAttrs: TypeAlias = Conv1DAttrs | Conv2DAttrs | Conv3DAttrs | DeformableConv2DAttrs
TransposedAttrs: TypeAlias = Conv1DTransposeAttrs | Conv2DTransposeAttrs | Conv3DTransposeAttrs


@dataclass(frozen=True)
class DenseAttrs(Attrs):
    """Attributes of ``nn.dense``."""

    units: int | None = written(None)
    out_dtype: str = ""


@dataclass(frozen=True)
class MatmulAttrs(Attrs):
    """Attributes of ``nn.matmul``."""

    units: int | None = written(None)
    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False


@dataclass(frozen=True)
class BatchMatmulAttrs(Attrs):
    """Attributes of ``nn.batch_matmul``."""

    out_dtype: str = ""
    transpose_a: bool = False
    transpose_b: bool = False  # as in Relay's class; its function has True
