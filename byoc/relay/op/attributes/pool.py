"""Attributes of the poolings."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.ir.attrs import Attrs


@dataclass(frozen=True)
class MaxPoolAttrs(Attrs):
    """Attributes of maximum pools; ``padding`` is all before, then all after."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    layout: str = ""
    out_layout: str = ""
    ceil_mode: bool = False


@dataclass(frozen=True)
class AvgPoolAttrs(MaxPoolAttrs):
    """Attributes of average pools."""

    count_include_pad: bool = False


@dataclass(frozen=True)
class MaxPool1DAttrs(MaxPoolAttrs):
    """Attributes of ``nn.max_pool1d``."""

    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    layout: str = "NCW"


@dataclass(frozen=True)
class MaxPool2DAttrs(MaxPoolAttrs):
    """Attributes of ``nn.max_pool2d``."""

    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    layout: str = "NCHW"


@dataclass(frozen=True)
class MaxPool3DAttrs(MaxPoolAttrs):
    """Attributes of ``nn.max_pool3d``."""

    strides: tuple[int, ...] = (1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    layout: str = "NCDHW"


@dataclass(frozen=True)
class AvgPool1DAttrs(AvgPoolAttrs):
    """Attributes of ``nn.avg_pool1d``."""

    strides: tuple[int, ...] = (1,)
    dilation: tuple[int, ...] = (1,)
    padding: tuple[int, ...] = (0,)
    layout: str = "NCW"


@dataclass(frozen=True)
class AvgPool2DAttrs(AvgPoolAttrs):
    """Attributes of ``nn.avg_pool2d``."""

    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    layout: str = "NCHW"


@dataclass(frozen=True)
class AvgPool3DAttrs(AvgPoolAttrs):
    """Attributes of ``nn.avg_pool3d``."""

    strides: tuple[int, ...] = (1, 1, 1)
    dilation: tuple[int, ...] = (1, 1, 1)
    padding: tuple[int, ...] = (0, 0, 0)
    layout: str = "NCDHW"
