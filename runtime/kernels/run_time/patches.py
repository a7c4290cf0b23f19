"""Which elements of patches fall on each element of an image, and the kernel for images that inputs describe."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel

MAX_PLACES = 1 << 24  # of a table of sources; a larger one is a damaged model


@dataclass(frozen=True)
class Patches:
    """Patches of an *image*: for each of its axes their size, the distance of their elements and of themselves.

    ``pads`` are the paddings before each axis, then behind each.
    """

    image: Sequence[int]
    kernel: Sequence[int]
    strides: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[int]

    @property
    def counts(self) -> list[int]:
        """How many patches stand along each axis."""
        rank, found = len(self.image), []
        for k, (size, length) in enumerate(zip(self.image, self.kernel, strict=True)):
            room = size + self.pads[k] + self.pads[k + rank] - ((length - 1) * self.dilations[k] + 1)
            found.append(room // self.strides[k] + 1)
        return found

    def channels(self, rows: int, columns: int) -> int:
        """Of data ``[N, rows, columns]`` the channels. Raises KernelError where these are no patches of the image."""
        numbers = (self.image, self.kernel, self.strides, self.dilations)
        if len({len(v) for v in numbers}) > 1 or min(map(min, numbers)) < 1 or min(self.pads) < 0:
            raise KernelError(
                f"image_shape {list(self.image)} and block_shape {list(self.kernel)} must have as many positive sizes"
            )
        each, steps = math.prod(self.kernel), math.prod(self.counts)
        if min(self.counts) < 1 or steps * each > MAX_PLACES or math.prod(self.image) > MAX_PLACES:
            raise KernelError(f"cannot place patches of {list(self.kernel)} in an image of {list(self.image)}")
        if rows % each or columns != steps:
            raise KernelError(
                f"patches of {list(self.kernel)} in an image of {list(self.image)} are [N, C * {each}, {steps}], "
                f"got [N, {rows}, {columns}]"
            )
        return rows // each

    def sources(self) -> np.ndarray:
        """int64[area, most]: for each element of the image the elements of its patches, then the place behind all."""
        rank, positions = len(self.image), self.counts
        offsets = np.indices(self.kernel).reshape(rank, -1, 1) * np.reshape(self.dilations, (rank, 1, 1))
        starts = np.indices(positions).reshape(rank, 1, -1) * np.reshape(self.strides, (rank, 1, 1))
        places = (offsets + starts - np.reshape(self.pads[:rank], (rank, 1, 1))).reshape(rank, -1)
        inside = np.flatnonzero(((places >= 0) & (places < np.reshape(self.image, (rank, 1)))).all(0))
        target = np.ravel_multi_index(tuple(places[:, inside]), tuple(self.image))
        order = np.argsort(target, kind="stable")
        counts = np.bincount(target, minlength=math.prod(self.image))
        table = np.full((math.prod(self.image), max(int(counts.max(initial=0)), 1)), places.shape[1], "int64")
        starts_of = np.concatenate([[0], np.cumsum(counts)[:-1]])
        table[target[order], np.arange(len(order)) - starts_of[target[order]]] = inside[order]
        return table


@kernel("dyn.col2im_table")
def col2im_table(
    shape: np.ndarray,
    image: np.ndarray,
    block: np.ndarray,
    *,
    strides: tuple[int, ...],
    dilations: tuple[int, ...],
    pads: tuple[int, ...],
    check: str = "",
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The table of sources, the shape ``[N, C, patches' elements]`` of the data, and that of the images.

    Raises KernelError for numbers that do not fit the data or each other.
    """
    batch, rows, columns = (int(d) for d in shape)
    sizes, kernel_ = ([int(v) for v in a.reshape(-1)] for a in (image, block))
    patches = Patches(sizes, kernel_, strides, dilations, pads)
    try:
        channels = patches.channels(rows, columns)
    except KernelError as error:
        raise KernelError(f"{check or 'col2im'}: {error}") from None
    flat = [batch, channels, math.prod(kernel_) * columns]
    return patches.sources(), np.array(flat, "int64"), np.array([batch, channels, *sizes], "int64")
