"""Regions and grids sampled from images, in numpy. Source: ``tvm.topi.testing``'s references of the same names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.annex.testing.references.padding import Ints, per_axis
from byoc.errors import UserError

Image = np.ndarray  # [C, H, W]
_LETTERS = ("NCHW", "NCDHW")


def bilinear(image: Image, *place: float) -> np.ndarray:
    """The numbers [C] of *image*, ``[C, *S]``, at *place*, between its neighbours; outside counts as 0."""
    low = np.floor(place).astype(int)
    result = np.zeros(image.shape[0])
    for corner in np.ndindex(*(2,) * len(place)):
        at = low + corner
        weight = np.prod(1 - np.abs(np.asarray(place) - at))
        if weight and (at >= 0).all() and (at < image.shape[1:]).all():
            result += weight * image[(slice(None), *at)]
    return result


def roi_align_nchw_python(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int,
    mode: bytes | str = b"avg",
) -> np.ndarray:
    """``a: [N, C, H, W], rois: [R, 5] (image, x1, y1, x2, y2) -> [R, C, P, Q]``: samples of each bin, averaged or max.

    He et al., "Mask R-CNN" (2017). Raises UserError for another mode.
    """
    word = mode.decode() if isinstance(mode, bytes) else mode
    if word not in ("avg", "max"):
        raise UserError(f"mode is avg or max, got {word!r}")
    sizes = per_axis(pooled_size, 2)
    result = np.zeros((len(rois_np), a_np.shape[1], *sizes), a_np.dtype)
    for r, (index, *corners) in enumerate(rois_np):
        left, top, right, bottom = (corner * spatial_scale for corner in corners)
        extent = max(bottom - top, 1.0), max(right - left, 1.0)
        counts = [sample_ratio if sample_ratio > 0 else int(np.ceil(e / p)) for e, p in zip(extent, sizes, strict=True)]
        for p, q in np.ndindex(*sizes):
            samples = []
            for i, j in np.ndindex(*counts):
                y = top + extent[0] / sizes[0] * (p + (i + 0.5) / counts[0])
                x = left + extent[1] / sizes[1] * (q + (j + 0.5) / counts[1])
                samples.append(_clamped(a_np[int(index)], y, x))
            result[r, :, p, q] = np.mean(samples, axis=0) if word == "avg" else np.max(samples, axis=0)
    return result


def _clamped(image: Image, y: float, x: float) -> np.ndarray:
    """The numbers of *image* at (y, x): 0 more than one pixel outside, those of the border within one."""
    height, width = image.shape[1:]
    if y < -1 or y > height or x < -1 or x > width:
        return np.zeros(image.shape[0])
    return bilinear(image, min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1))


def roi_align_nhwc_python(
    a_np: np.ndarray,
    rois_np: np.ndarray,
    pooled_size: Ints,
    spatial_scale: float,
    sample_ratio: int,
    mode: bytes | str = b"avg",
) -> np.ndarray:
    """``a: [N, H, W, C], rois: [R, 5] -> [R, P, Q, C]``; see ``roi_align_nchw_python``."""
    data = a_np.transpose(0, 3, 1, 2)
    return roi_align_nchw_python(data, rois_np, pooled_size, spatial_scale, sample_ratio, mode).transpose(0, 2, 3, 1)


def roi_pool_nchw_python(a_np: np.ndarray, rois_np: np.ndarray, pooled_size: Ints, spatial_scale: float) -> np.ndarray:
    """``a: [N, C, H, W], rois: [R, 5] -> [R, C, P, Q]``: the maximum of each bin, 0 of an empty one."""
    sizes = per_axis(pooled_size, 2)
    result = np.zeros((len(rois_np), a_np.shape[1], *sizes), a_np.dtype)
    for r, (index, *corners) in enumerate(rois_np):
        left, top, right, bottom = (round(corner * spatial_scale) for corner in corners)
        starts, extent = (top, left), (max(bottom - top + 1, 1), max(right - left + 1, 1))
        for place in np.ndindex(*sizes):
            where = []
            for axis in (0, 1):
                step = extent[axis] / sizes[axis]
                ends = np.floor(place[axis] * step), np.ceil((place[axis] + 1) * step)
                limit = a_np.shape[axis + 2]
                where.append(slice(*(min(max(int(e) + starts[axis], 0), limit) for e in ends)))
            window: tuple[int | slice, ...] = (int(index), slice(None), *where)
            seen = a_np[window]
            if seen.size:
                result[(r, slice(None), *place)] = seen.max(axis=(1, 2))
    return result


def crop_and_resize_python(
    image: np.ndarray,
    boxes: np.ndarray,
    box_indices: np.ndarray,
    crop_size: Sequence[int],
    layout: str,
    method: str = "bilinear",
    extrapolation_value: float = 0,
) -> np.ndarray:
    """Each box (y1, x1, y2, x2, in parts of the image) of its image, resized to *crop_size*; *layout* NCHW or NHWC."""
    data = image if layout == "NCHW" else image.transpose(0, 3, 1, 2)
    height, width = data.shape[2:]
    result = np.full((len(boxes), data.shape[1], *crop_size), extrapolation_value, data.dtype)
    for n, (y1, x1, y2, x2) in enumerate(boxes):
        for i, j in np.ndindex(*crop_size):
            y = _between(y1, y2, height, i, crop_size[0])
            x = _between(x1, x2, width, j, crop_size[1])
            if 0 <= y <= height - 1 and 0 <= x <= width - 1:
                source = data[int(box_indices[n])]
                nearest = method == "nearest_neighbor"
                result[n, :, i, j] = source[:, round(y), round(x)] if nearest else bilinear(source, y, x)
    return result if layout == "NCHW" else result.transpose(0, 2, 3, 1)


def _between(low: float, high: float, size: int, index: int, count: int) -> float:
    if count == 1:
        return 0.5 * (low + high) * (size - 1)
    return low * (size - 1) + index * (high - low) * (size - 1) / (count - 1)


def affine_grid_python(data: np.ndarray, target_shape: Sequence[int]) -> np.ndarray:
    """``data: [N, 2, 3] -> [N, 2, H, W]``: where each place of the target is in the source, both from -1 to 1."""
    rows, columns = (np.linspace(-1, 1, size) for size in target_shape)
    places = np.stack([*np.meshgrid(columns, rows), np.ones(tuple(target_shape))])
    result: np.ndarray = np.einsum("nij,jhw->nihw", data, places)
    return result


def grid_sample_python(
    data: np.ndarray,
    grid: np.ndarray,
    method: str = "bilinear",
    layout: str = "NCHW",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> np.ndarray:
    """``data: [N, C, H, W], grid: [N, 2 (x, y), P, Q] -> [N, C, P, Q]``.

    In NCDHW there is a depth too, ``grid: [N, 3 (x, y, z), ...]``. Raises UserError for an unknown word.
    """
    fits = layout in _LETTERS and data.ndim == len(layout)
    if not fits or method not in ("bilinear", "nearest") or padding_mode not in _OUTSIDE:
        raise UserError(f"grid_sample_python knows no {method}, {layout} and {padding_mode} together")
    result = np.zeros((*data.shape[:2], *grid.shape[2:]), data.dtype)
    for n, *at in np.ndindex(grid.shape[0], *grid.shape[2:]):
        place = []
        for value, size in zip(grid[(n, slice(None, None, -1), *at)], data.shape[2:], strict=True):
            scaled = (value + 1) * (size - 1) / 2 if align_corners else ((value + 1) * size - 1) / 2
            place.append(_OUTSIDE[padding_mode](scaled, size, align_corners))
        if method == "nearest":
            place = [float(np.rint(value)) for value in place]
        result[(n, slice(None), *at)] = bilinear(data[n], *place)
    return result


def _reflected(value: float, size: int, align_corners: bool) -> float:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = high - low
    if span <= 0:
        return 0.0
    turn = abs(value - low) % (2 * span)
    return min(max(low + (2 * span - turn if turn > span else turn), 0.0), size - 1.0)


_OUTSIDE: dict[str, Callable[[float, int, bool], float]] = {
    "zeros": lambda value, size, align_corners: value,
    "border": lambda value, size, align_corners: min(max(value, 0.0), size - 1.0),
    "reflection": _reflected,
}
