"""What the functions of convolutions are called with, with the defaults of Relay's functions."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.relay.op.core.arguments import DataAndWeight, Ints, WindowArguments


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
