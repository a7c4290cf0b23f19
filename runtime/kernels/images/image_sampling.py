"""Numpy kernels that sample images at free places."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.errors import image_outside
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.images.image import cubic_weights

Taps = list[tuple[np.ndarray, np.ndarray]]
CUBIC = -0.75


@kernel("image.affine_grid")
def affine_grid(data: np.ndarray, *, target_shape: tuple[int, ...]) -> np.ndarray:
    """data: T[N, 2, 3] times the places (x, y, 1) of a regular grid -> T[N, 2, H, W]."""
    rows, columns = (np.linspace(-1, 1, n) for n in target_shape)
    x, y = np.meshgrid(columns, rows)
    places = np.stack([x, y, np.ones_like(x)])
    result: np.ndarray = np.einsum("nck,khw->nchw", data.astype(np.float64), places).astype(data.dtype)
    return result


def _reflected(place: np.ndarray, size: int, align_corners: bool) -> np.ndarray:
    """*place* folded into the image, at the middle of its outer pixels or at their edges."""
    low, span = (0.0, size - 1.0) if align_corners else (-0.5, float(size))
    if span == 0:
        return np.zeros_like(place)
    distance = np.abs(place - low)
    turns, rest = np.floor(distance / span), np.mod(distance, span)
    return np.where(turns % 2 == 0, rest, span - rest) + low


def _placed(place: np.ndarray, size: int, method: str, padding_mode: str, align_corners: bool) -> np.ndarray:
    """A *place* between pixels inside the image, where the padding says so.

    One that is reflected at the edge of the outer pixel may stay beyond its middle, where it is between the pixel and
    its own reflection: the next pixel has no part in it, not even times 0. A cubic mixes pixels that are moved one by
    one; the place stays, as near to the border as an infinity must be.
    """
    if method == "bicubic":
        return np.clip(place, -2, size + 1) if padding_mode == "border" else place
    if padding_mode == "reflection":
        return _reflected(place, size, align_corners)
    return _moved(place, size, padding_mode, align_corners)


def _moved(place: np.ndarray, size: int, padding_mode: str, align_corners: bool) -> np.ndarray:
    """A *place* that is a pixel inside the image, where the padding says so."""
    if padding_mode == "reflection":
        place = _reflected(place, size, align_corners)
    return np.clip(place, 0, size - 1) if padding_mode != "zeros" else place


def _taps(place: np.ndarray, method: str) -> Taps:
    """The pixels around *place* along one axis, and how much each counts."""
    floor = np.floor(place)
    t = place - floor
    if method == "nearest":
        return [(np.rint(place), np.ones_like(place))]
    if method == "bilinear":
        return [(floor, 1 - t), (floor + 1, t)]
    return [(floor + k, weight) for k, weight in zip((-1, 0, 1, 2), cubic_weights(t, CUBIC), strict=True)]


def _sampled(image: np.ndarray, taps: Sequence[Taps], padding_mode: str, align_corners: bool) -> np.ndarray:
    """image: T[C, *in], one list of taps an axis, each of shape ``out`` -> f64[C, *out]."""
    value: np.ndarray | int = 0
    for combination in itertools.product(*taps):
        weight: float | np.ndarray = 1.0
        inside: bool | np.ndarray = True
        index: list[np.ndarray] = []
        for (place, part), size in zip(combination, image.shape[1:], strict=True):
            moved = _moved(place, size, padding_mode, align_corners)
            here = (moved >= 0) & (moved <= size - 1)  # not where it is NaN
            inside = inside & here
            index.append(np.where(here, moved, 0).astype(np.int64))
            weight = weight * part
        places: tuple[slice | np.ndarray, ...] = (slice(None), *index)
        value = value + np.where(inside, image[places] * weight, 0)
    return np.asarray(value)


@kernel("image.grid_sample")
def grid_sample(
    data: np.ndarray,
    grid: np.ndarray,
    *,
    method: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """data: T[N, C, *in], grid: T[N, n, *out] with x first -> T[N, C, *out]."""
    images = []
    for image, places in zip(data.astype(np.float64), grid.astype(np.float64), strict=True):
        taps = []
        for place, size in zip(places[::-1], data.shape[2:], strict=True):
            at = (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2
            taps.append(_taps(_placed(at, size, method, padding_mode, align_corners), method))
        images.append(_sampled(image, taps, padding_mode, align_corners))
    return np.stack(images).astype(data.dtype) if images else np.zeros((0, data.shape[1], *grid.shape[2:]), data.dtype)


def _crop_places(start: float, end: float, size: int, count: int) -> np.ndarray:
    if count == 1:
        return np.array([0.5 * (start + end) * (size - 1)])
    return start * (size - 1) + np.arange(count) * ((end - start) * (size - 1) / (count - 1))


@dataclass(frozen=True, kw_only=True)
class CropAttributes(KernelAttributes):
    """Attributes of crops of one size."""

    crop_size: tuple[int, ...]
    layout: str
    method: str = "bilinear"
    extrapolation_value: float = 0.0
    out_dtype: str = ""


@kernel("image.crop_and_resize")
def crop_and_resize(
    data: np.ndarray,
    boxes: np.ndarray,
    box_indices: np.ndarray,
    *,
    attrs: CropAttributes,
) -> np.ndarray:
    """Each box of its image at places at equal distances; a place outside the image gives a value.

    Raises IndexOutsideError for an image that is not there.
    """
    images = to_letters(data, attrs.layout, "NCHW")
    wrong = box_indices[(box_indices < 0) | (box_indices >= len(images))]
    if wrong.size:
        raise image_outside("crop_and_resize: box_indices", float(wrong[0]), len(images))
    height, width = images.shape[2:]
    out = np.empty((len(boxes), images.shape[1], *attrs.crop_size), np.float64)
    for n, ((y1, x1, y2, x2), index) in enumerate(zip(boxes.astype(np.float64), box_indices, strict=True)):
        y, x = _crop_places(y1, y2, height, attrs.crop_size[0]), _crop_places(x1, x2, width, attrs.crop_size[1])
        places = np.meshgrid(y, x, indexing="ij")
        kind = "bilinear"
        if attrs.method == "nearest_neighbor":
            places, kind = tuple(np.floor(p + 0.5) for p in places), "nearest"
        inside = (y[:, None] >= 0) & (y[:, None] <= height - 1) & (x >= 0) & (x <= width - 1)
        value = _sampled(images[index].astype(np.float64), [_taps(p, kind) for p in places], "border", True)
        out[n] = np.where(inside, value, attrs.extrapolation_value)
    return from_letters(out.astype(attrs.out_dtype or data.dtype), "NCHW", attrs.layout)
