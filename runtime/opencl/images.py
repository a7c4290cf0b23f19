"""Tensors as two-dimensional images of four channels a texel, and what a device takes of them.

Element (n, c, h, w) of a tensor is component ``c % 4`` of the texel ``x = c // 4 * W + w``, ``y = n * H + h``, so that
an image has ``ceil(C / 4) * W`` by ``N * H`` texels. A tensor of fewer dimensions is taken as one of four: (n, c, w) as
(n, c, 1, w), (n, c) as (n, c, 1, 1), (c) as (1, c, 1, 1); scalars and tensors of more dimensions have no image. The
components beyond C in the last texels are padding, which nothing reads as data. Source: MNN's and Paddle Lite's
``ImageDefault``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.opencl.devices import DeviceInfo, OpenDevice

if TYPE_CHECKING:
    import pyopencl

CHANNELS = 4  # of a texel
COMPONENT_BYTES = {"float32": 4, "float16": 2}  # what components may be


def as_four(shape: Sequence[int]) -> tuple[int, int, int, int] | None:
    """*shape* as (n, c, h, w); None where it has none or more dimensions.

    >>> as_four((2, 5, 7)), as_four((2, 5)), as_four((5,)), as_four((1, 2, 3, 4, 5))
    ((2, 5, 1, 7), (2, 5, 1, 1), (1, 5, 1, 1), None)
    """
    if len(shape) == 4:
        n, c, h, w = shape
        return n, c, h, w
    if len(shape) == 3:
        return shape[0], shape[1], 1, shape[2]
    if len(shape) == 2:
        return shape[0], shape[1], 1, 1
    return (1, shape[0], 1, 1) if len(shape) == 1 else None


@dataclass(frozen=True)
class ImageSize:
    """An image of *width* by *height* texels, whose components are of *dtype*: ``float32`` or ``float16``."""

    width: int
    height: int
    dtype: str

    @staticmethod
    def of(shape: Sequence[int], dtype: str) -> ImageSize | None:
        """The image of a tensor; None where it has none."""
        four = as_four(shape)
        if four is None or dtype not in COMPONENT_BYTES or 0 in four:
            return None
        n, c, h, w = four
        return ImageSize(-(-c // CHANNELS) * w, n * h, dtype)

    @property
    def bytes(self) -> int:
        """What its texels take."""
        return self.width * self.height * CHANNELS * COMPONENT_BYTES[self.dtype]

    def beyond(self, width: int, height: int) -> str | None:
        """Which of the limits *width* and *height* of a device it exceeds, as half a sentence; None for neither."""
        if not width or not height:
            return "the device has no images"
        if self.width > width:
            return f"{self.width} texels wide, and the device's images have at most {width}"
        if self.height > height:
            return f"{self.height} texels high, and the device's images have at most {height}"
        return None


def texels(array: np.ndarray, dtype: str) -> np.ndarray:
    """The texels of a tensor, ``dtype[height, width, 4]``; components beyond the last channel are 0."""
    four = as_four(array.shape)
    if four is None:
        raise ValueError(f"a tensor of shape {array.shape} has no image")
    n, c, h, w = four
    blocks = -(-c // CHANNELS)
    padded = np.zeros((n, blocks * CHANNELS, h, w), dtype)
    padded[:, :c] = array.view(dtype).reshape(four)
    parts = padded.reshape(n, blocks, CHANNELS, h, w).transpose(0, 3, 1, 4, 2)
    return np.asarray(parts, order="C").reshape(n * h, blocks * w, CHANNELS)


def check_limits(size: ImageSize, info: DeviceInfo) -> None:
    """Raises DeviceError for an image that the device cannot have."""
    why = size.beyond(info.image_width, info.image_height)
    if why is not None:
        raise DeviceError(
            f"the kernels were made for an image of {size.width} by {size.height} texels on the OpenCL device "
            f"{info.name!r}: {why}; compile the model on a machine that has this device, or with the mode memory=buffer"
        )


def new_image(cl: ModuleType, opened: OpenDevice, size: ImageSize, read_only: bool = False) -> pyopencl.Image:
    """An image of *size*. Raises DeviceError for one beyond the device's limits, pyopencl's error for no memory."""
    check_limits(size, opened.info)
    channel = cl.channel_type.FLOAT if size.dtype == "float32" else cl.channel_type.HALF_FLOAT
    flags = cl.mem_flags.READ_ONLY if read_only else cl.mem_flags.READ_WRITE
    made: pyopencl.Image = cl.create_image(
        opened.context, flags, cl.ImageFormat(cl.channel_order.RGBA, channel), shape=(size.width, size.height)
    )
    return made
