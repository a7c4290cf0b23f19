"""Numpy kernels of regions of images: ``roi_align``, ``roi_pool``, ``proposal``, ``yolo_reorg``."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.errors import KernelError, image_outside
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.images.boxes import suppressed


def _regions(kernel_name: str, rois: np.ndarray, images: int) -> Iterator[tuple[int, np.ndarray]]:
    """The image and the corners (x1, y1, x2, y2) of each region.

    Raises IndexOutsideError for an image that is not there, KernelError for a corner that is not finite.
    """
    for n, (image, *corners) in enumerate(rois.astype(np.float64)):
        if not 0 <= image < images:  # NaN is outside, too
            raise image_outside(f"{kernel_name}: region {n}", image, images)
        if not np.isfinite(corners).all():
            listed = ", ".join(f"{corner:g}" for corner in corners)
            raise KernelError(
                f"{kernel_name}: region {n} is ({listed}); the corners of a region must be finite numbers"
            )
        yield int(image), np.array(corners)


def _parts(image: np.ndarray, y: np.ndarray, x: np.ndarray) -> list[np.ndarray]:
    """image: [C, H, W] at rows *y* and columns *x*: the four weighted pixels around, each [C, y, x]."""
    height, width = image.shape[1:]
    y, x = np.clip(y, 0, height - 1), np.clip(x, 0, width - 1)
    top, left = np.floor(y).astype(int), np.floor(x).astype(int)
    parts = []
    for row, weight_y in ((top, 1 - (y - top)), (np.minimum(top + 1, height - 1), y - top)):
        for column, weight_x in ((left, 1 - (x - left)), (np.minimum(left + 1, width - 1), x - left)):
            parts.append(image[:, row[:, None], column] * weight_y[:, None] * weight_x)
    return parts


@dataclass(frozen=True)
class _Places:
    """Along one axis: the places that are inside, in order, the slice of them for each cell, and a cell's *count*."""

    inside: np.ndarray
    cells: list[slice]
    count: int


def _places(start: float, extent: float, cells: int, count: int, size: int) -> _Places:
    """*count* places for each of *cells* that divide *extent* from *start*; a pixel and more beyond *size* is outside.

    A region may be much larger than its image: only places near the image are looked at.
    """
    total = float(cells) * float(count)
    step = extent / total
    first, most = 0.0, total
    if step > 0 and (size + 1) / step < total:
        first = float(np.clip(np.floor((-1 - start) / step) - 1, 0, total))
        most = min(np.ceil((size + 1) / step) + 4, total - first)
    numbers = first + np.arange(int(most))
    place = start + (numbers + 0.5) * extent / total
    kept = (place >= -1) & (place <= size)
    ends = np.searchsorted(numbers[kept], np.arange(cells + 1) * float(count))
    return _Places(place[kept], list(itertools.starmap(slice, itertools.pairwise(ends))), count)


@dataclass(frozen=True, kw_only=True)
class AlignAttributes(KernelAttributes):
    """Attributes of aligned regions."""

    pooled_size: tuple[int, ...]
    spatial_scale: float
    sample_ratio: int = -1
    layout: str = "NCHW"
    mode: str = "avg"
    aligned: bool = False


def _pooled(parts: list[np.ndarray], rows: _Places, columns: _Places, mode: str) -> np.ndarray:
    """*parts* are [C, y, x] of the places inside: the mean or maximum of each cell; a place outside is 0."""
    value = np.maximum.reduce(parts) if mode == "max_of_parts" else np.add.reduce(parts)
    out = np.zeros((len(value), len(rows.cells), len(columns.cells)))
    for (i, row), (j, column) in itertools.product(enumerate(rows.cells), enumerate(columns.cells)):
        own = value[:, row, column]
        inside = own.shape[1] * own.shape[2]
        if mode == "avg":
            out[:, i, j] = own.sum((1, 2)) / (float(rows.count) * float(columns.count))
        elif inside:
            most = own.max((1, 2))
            out[:, i, j] = most if inside == rows.count * columns.count else np.maximum(most, 0)
    return out


@kernel("vision.roi_align")
def roi_align(data: np.ndarray, rois: np.ndarray, *, attrs: AlignAttributes) -> np.ndarray:
    """Each cell of each region: the mean or maximum of places at equal distances, interpolated linearly.

    The maximum of parts is that of the weighted pixels. A region without a place (upside down, *aligned*) is 0.
    Raises IndexOutsideError for an image that is not there, KernelError for a region that is not finite.
    """
    images = to_letters(data, attrs.layout, "NCHW").astype(np.float64)
    out = np.zeros((len(rois), images.shape[1], *attrs.pooled_size), np.float64)
    shift, least = (0.5, -np.inf) if attrs.aligned else (0.0, 1.0)
    for n, (image, corners) in enumerate(_regions("roi_align", rois, len(images))):
        axes = []
        for k, cells, size in zip((1, 0), attrs.pooled_size, images.shape[2:], strict=True):
            low, high = corners[[k, k + 2]] * attrs.spatial_scale
            start, extent = low - shift, max(high - low, least)
            if not np.isfinite(start) or not np.isfinite(extent):
                raise KernelError(f"roi_align: region {n} by spatial_scale {attrs.spatial_scale} is beyond float64")
            count = attrs.sample_ratio if attrs.sample_ratio > 0 else max(math.ceil(extent / cells), 0)
            if count:
                axes.append(_places(start, extent, cells, count, size))
        if len(axes) == 2:
            out[n] = _pooled(_parts(images[image], *(axis.inside for axis in axes)), axes[0], axes[1], attrs.mode)
    return from_letters(out.astype(data.dtype), "NCHW", attrs.layout)


@kernel("vision.roi_pool")
def roi_pool(
    data: np.ndarray, rois: np.ndarray, *, pooled_size: tuple[int, ...], spatial_scale: float, layout: str = "NCHW"
) -> np.ndarray:
    """Each cell of each region: the maximum of its pixels, 0 where it has none.

    Raises IndexOutsideError for an image that is not there, KernelError for a region that is not finite.
    """
    images = to_letters(data, layout, "NCHW")
    out = np.zeros((len(rois), images.shape[1], *pooled_size), data.dtype)
    for n, (image, corners) in enumerate(_regions("roi_pool", rois, len(images))):
        ends = np.floor(np.abs(corners * spatial_scale) + 0.5) * np.sign(corners)  # halves away from 0
        spans = []
        for low, high, cells, size in zip(ends[[1, 0]], ends[[3, 2]], pooled_size, images.shape[2:], strict=True):
            cell = max(high - low + 1, 1) / cells
            starts = np.floor(np.arange(cells) * cell) + low
            stops = np.ceil(np.arange(1, cells + 1) * cell) + low
            spans.append(np.clip(np.stack([starts, stops], 1), 0, size).astype(int))
        for (i, (top, bottom)), (j, (left, right)) in itertools.product(enumerate(spans[0]), enumerate(spans[1])):
            if bottom > top and right > left:
                out[n, :, i, j] = images[image, :, top:bottom, left:right].max((1, 2))
    return from_letters(out, "NCHW", layout)


def _anchors(scales: tuple[float, ...], ratios: tuple[float, ...], base: int) -> np.ndarray:
    """Boxes (x1, y1, x2, y2) around a square of *base* pixels, by ratio and then by scale."""
    centre, boxes = 0.5 * (base - 1), []
    for ratio, scale in itertools.product(ratios, scales):
        side = math.floor(math.sqrt(math.floor(base * base / ratio)) + 0.5)
        width, height = side * scale, math.floor(side * ratio + 0.5) * scale
        half = np.array([width - 1, height - 1]) / 2
        boxes.append([*(centre - half), *(centre + half)])
    return np.array(boxes)


def _moved(boxes: np.ndarray, moves: np.ndarray, iou_loss: bool) -> np.ndarray:
    if iou_loss:
        result: np.ndarray = boxes + moves
        return result
    size = boxes[..., 2:] - boxes[..., :2] + 1
    centre = boxes[..., :2] + 0.5 * (size - 1) + moves[..., :2] * size
    half = 0.5 * (np.exp(moves[..., 2:]) * size - 1)
    return np.concatenate([centre - half, centre + half], -1)


@dataclass(frozen=True, kw_only=True)
class ProposalAttributes(KernelAttributes):
    """Attributes of the proposal: anchors, thresholds and limits."""

    scales: tuple[float, ...]
    ratios: tuple[float, ...]
    feature_stride: int
    threshold: float
    rpn_pre_nms_top_n: int
    rpn_post_nms_top_n: int
    rpn_min_size: int
    iou_loss: bool = False


@kernel("vision.proposal")
def proposal(
    cls_prob: np.ndarray,
    bbox_pred: np.ndarray,
    im_info: np.ndarray,
    *,
    attrs: ProposalAttributes,
) -> np.ndarray:
    """The best moved anchors of each image; where fewer are left they are repeated in their order.

    Raises KernelError for an image whose size or scale is not finite.
    """
    if not np.isfinite(im_info).all():
        raise KernelError("proposal: im_info must be finite numbers: height, width and scale of each image")
    batch, _, rows, columns = cls_prob.shape
    anchors = _anchors(attrs.scales, attrs.ratios, attrs.feature_stride)
    shifts = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), -1) * attrs.feature_stride
    boxes = anchors + np.concatenate([shifts, shifts], -1)[:, :, None, :]
    out = np.zeros((batch, attrs.rpn_post_nms_top_n, 5), cls_prob.dtype)
    for n, (height, width, scale) in enumerate(im_info.astype(np.float64)):
        moves = bbox_pred[n].reshape(len(anchors), 4, rows, columns).transpose(2, 3, 0, 1).astype(np.float64)
        edge = np.array([width - 1, height - 1] * 2)
        found = np.clip(_moved(boxes, moves, attrs.iou_loss), 0, edge)
        score = cls_prob[n, len(anchors) :].transpose(1, 2, 0).astype(np.float64)
        score[int(height // attrs.feature_stride) :] = -1
        score[:, int(width // attrs.feature_stride) :] = -1
        least = attrs.rpn_min_size * scale
        small = (found[..., 2:] - found[..., :2] + 1 < least).any(-1)
        grown = np.concatenate([found[..., :2] - least / 2, found[..., 2:] + least / 2], -1)
        found, score = np.where(small[..., None], grown, found), np.where(small, -1, score)
        flat = found.reshape(-1, 4)
        order = np.argsort(-score.reshape(-1), kind="stable")
        order = order[: attrs.rpn_pre_nms_top_n] if attrs.rpn_pre_nms_top_n > 0 else order
        kept = suppressed(flat, order, attrs.rpn_post_nms_top_n, lambda iou: iou > attrs.threshold, 1.0)
        chosen = [kept[k % len(kept)] for k in range(attrs.rpn_post_nms_top_n)]
        out[n, :, 0], out[n, :, 1:] = n, flat[chosen]
    return out.reshape(-1, 5)


@kernel("vision.yolo_reorg")
def yolo_reorg(data: np.ndarray, *, stride: int) -> np.ndarray:
    """Darknet's reorganisation: the data as fewer channels of larger images, cut in blocks, read as more channels."""
    batch, channels, height, width = data.shape
    images = data.reshape(batch, channels // stride**2, height, stride, width, stride)
    whole = images.transpose(0, 3, 5, 1, 2, 4)
    return whole.reshape(batch, channels * stride**2, height // stride, width // stride)
