"""Numpy kernels of anchors and of the suppression of overlapping boxes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel

BLOCK = 64  # boxes that are compared with one another at once


def overlaps(box: np.ndarray, others: np.ndarray, pixel: float = 0.0) -> np.ndarray:
    """box: [..., 4], others: [..., 4] -> [...]: intersection over union of boxes by two opposite corners.

    *pixel* is what a side is longer than the difference of its ends.
    """
    low, high = np.minimum(others[..., :2], others[..., 2:]), np.maximum(others[..., :2], others[..., 2:])
    own_low, own_high = np.minimum(box[..., :2], box[..., 2:]), np.maximum(box[..., :2], box[..., 2:])
    common = np.maximum(np.minimum(high, own_high) - np.maximum(low, own_low) + pixel, 0).prod(-1)
    union = (high - low + pixel).prod(-1) + (own_high - own_low + pixel).prod(-1) - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0)


def suppressed(
    boxes: np.ndarray, order: np.ndarray, limit: int, hides: Callable[[np.ndarray], np.ndarray], pixel: float = 0.0
) -> list[int]:
    """The boxes of *order*, best first, that none kept before them *hides* by its overlap; at most *limit*.

    A block of boxes is compared with all that were kept, then with itself.
    """
    kept: list[int] = []
    for start in range(0, len(order), BLOCK):
        if len(kept) >= limit:
            break
        block = order[start : start + BLOCK]
        if kept:
            block = block[~hides(overlaps(boxes[block, None], boxes[kept], pixel)).any(1)]
        hidden = hides(overlaps(boxes[block, None], boxes[block], pixel))
        gone = np.zeros(len(block), bool)
        for place, index in enumerate(block):
            if not gone[place]:
                kept.append(int(index))
                gone |= hidden[place]
    return kept[: max(limit, 0)]


@kernel("vision.multibox_prior")
def multibox_prior(
    data: np.ndarray,
    *,
    sizes: tuple[float, ...] = (1.0,),
    ratios: tuple[float, ...] = (1.0,),
    steps: tuple[float, ...] = (-1.0, -1.0),
    offsets: tuple[float, ...] = (0.5, 0.5),
    clip: bool = False,
) -> np.ndarray:
    """Boxes of every size with the ratio 1, then of the first size with the other ratios, around each pixel."""
    height, width = data.shape[2:]
    y = (np.arange(height) + offsets[0]) * (steps[0] if steps[0] > 0 else 1 / height)
    x = (np.arange(width) + offsets[1]) * (steps[1] if steps[1] > 0 else 1 / width)
    roots = np.sqrt([1.0] * len(sizes) + list(ratios[1:]))
    extents = np.array([*sizes, *[sizes[0]] * (len(ratios) - 1)])
    half_w, half_h = extents * height / width * roots / 2, extents / roots / 2
    centre_y, centre_x = y[:, None, None], x[None, :, None]
    sides = [centre_x - half_w, centre_y - half_h, centre_x + half_w, centre_y + half_h]
    boxes = np.stack(np.broadcast_arrays(*sides), -1).reshape(1, -1, 4)
    boxes = np.clip(boxes, 0, 1) if clip else boxes
    return boxes.astype(data.dtype if data.dtype.kind == "f" else np.float32)


@kernel("vision.multibox_transform_loc")
def multibox_transform_loc(
    cls_prob: np.ndarray,
    loc_pred: np.ndarray,
    anchor: np.ndarray,
    *,
    clip: bool = True,
    threshold: float = 0.01,
    variances: tuple[float, ...] = (0.1, 0.1, 0.2, 0.2),
    keep_background: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The anchors that are most likely something, moved by the predictions; -1 beyond their number.

    With *keep_background* all of them, class 0 for those most likely nothing or below the threshold.
    """
    batch, _, count = cls_prob.shape
    low, high = anchor[0, :, :2].astype(np.float64), anchor[0, :, 2:].astype(np.float64)
    size, centre = high - low, (low + high) / 2
    out, counts = np.full((batch, count, 6), -1, cls_prob.dtype), np.zeros(batch, np.int32)
    for n in range(batch):
        moves = loc_pred[n].reshape(-1, 4) * np.array(variances)
        middle, half = moves[:, :2] * size + centre, np.exp(moves[:, 2:]) * size / 2
        boxes = np.concatenate([middle - half, middle + half], 1)
        boxes = np.clip(boxes, 0, 1) if clip else boxes
        classes = cls_prob[n] if keep_background else cls_prob[n, 1:]
        label, score = classes.argmax(0), classes.max(0)
        if keep_background:
            label[score < threshold] = 0
        found = np.arange(count) if keep_background else np.flatnonzero(score >= threshold)
        counts[n] = len(found)
        out[n, : len(found)] = np.concatenate([label[found, None], score[found, None], boxes[found]], 1)
    return out, counts


@kernel("vision.get_valid_counts")
def get_valid_counts(
    data: np.ndarray, score_threshold: np.ndarray, *, id_index: int = 0, score_index: int = 1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """How many boxes have a score above the threshold and a class, these boxes, and where they were."""
    valid = data[..., score_index] > score_threshold.reshape(())
    if id_index >= 0:
        valid &= data[..., id_index] >= 0
    boxes, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for n, row in enumerate(valid):
        found = np.flatnonzero(row)
        boxes[n, : len(found)], places[n, : len(found)] = data[n, found], found
    return valid.sum(1).astype(np.int32), boxes, places


@dataclass(frozen=True, kw_only=True)
class SuppressionAttributes(KernelAttributes):
    """Attributes of the suppression: where coordinates, score and class stand in a box, and what is returned."""

    force_suppress: bool = False
    top_k: int = -1
    coord_start: int = 2
    score_index: int = 1
    id_index: int = 0
    return_indices: bool = True
    invalid_to_bottom: bool = False


def _one_image(boxes: np.ndarray, limit: int, threshold: float, attrs: SuppressionAttributes) -> np.ndarray:
    """What becomes of boxes that are sorted by score.

    1: kept, 0: suppressed, 2: never looked at (score not positive), 3: beyond *limit* kept ones.
    """
    fate = np.full(len(boxes), 2)
    corners = boxes[:, attrs.coord_start : attrs.coord_start + 4].astype(np.float64)
    for j, box in enumerate(boxes):
        if (fate == 1).sum() == limit:
            fate[j] = 3
        elif box[attrs.score_index] > 0:
            rivals = np.flatnonzero(fate[:j] == 1)
            if attrs.id_index >= 0:
                rivals = rivals[boxes[rivals, attrs.id_index] >= 0]
                alike = boxes[rivals, attrs.id_index] == box[attrs.id_index]
                rivals = rivals if attrs.force_suppress else rivals[alike]
            hidden = (overlaps(corners[j], corners[rivals]) >= threshold).any() if len(rivals) else False
            fate[j] = 0 if hidden else 1
    return fate


def _to_front(values: np.ndarray, valid: np.ndarray) -> np.ndarray:
    """Of each image [N, boxes, ...] the values that are *valid*, [N, boxes], then -1."""
    out = np.full_like(values, -1)
    for image, given, kept in zip(out, values, valid, strict=True):
        image[: int(kept.sum())] = given[kept]
    return out


@kernel("vision.non_max_suppression")
def non_max_suppression(
    data: np.ndarray,
    valid_count: np.ndarray,
    indices: np.ndarray,
    max_output_size: np.ndarray,
    iou_threshold: np.ndarray,
    *,
    attrs: SuppressionAttributes,
) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
    """Boxes by falling score, -1 for what is suppressed; or their places, what is left first."""
    threshold, limit = float(iou_threshold.reshape(())), int(max_output_size.reshape(()))
    out, places = np.full_like(data, -1), np.full(data.shape[:2], -1, np.int32)
    for n, count in enumerate(valid_count):
        if threshold <= 0:
            out[n, :count], places[n, :count] = data[n, :count], np.arange(count)
            continue
        order = np.argsort(-data[n, :count, attrs.score_index], kind="stable")
        order = order[: attrs.top_k] if 0 < attrs.top_k < count else order
        boxes = data[n, order].copy()
        fate = _one_image(boxes, limit, threshold, attrs)
        boxes[fate == 0, attrs.score_index] = -1
        if attrs.id_index >= 0:
            boxes[fate == 0, attrs.id_index] = -1
        boxes[fate == 3] = -1
        out[n, : len(order)] = boxes
        places[n, : len(order)] = np.where((fate == 0) | (fate == 3), -1, order)
    if not attrs.return_indices:
        return _to_front(out, out[:, :, 0] >= 0) if attrs.invalid_to_bottom else out
    given = np.where(places >= 0, np.take_along_axis(indices, np.maximum(places, 0), 1), -1)
    first = _to_front(given, given >= 0).astype(np.int32)
    return first, (given >= 0).sum(1, keepdims=True).astype(np.int32)


def _kept_by_class(
    boxes: np.ndarray, scores: np.ndarray, limit: int, iou_threshold: float, score_threshold: float
) -> list[tuple[int, int]]:
    """boxes: [B, 4], scores: [C, B] -> (class, box) by class and falling score."""
    found = []
    for label, row in enumerate(scores):
        order = np.argsort(-row, kind="stable")
        order = order[row[order] > score_threshold]
        kept = suppressed(boxes, order, limit if limit >= 0 else len(order), lambda iou: iou > iou_threshold)
        found += [(label, index) for index in kept]
    return found


@kernel("vision.all_class_non_max_suppression")
def all_class_non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    max_output_boxes_per_class: np.ndarray,
    iou_threshold: np.ndarray,
    score_threshold: np.ndarray,
    *,
    output_format: str = "onnx",
) -> tuple[np.ndarray, ...]:
    """(batch, class, box) of all that is left; or (class, box) of each image, class after class, and their scores."""
    limit = int(max_output_boxes_per_class.reshape(()))
    limits = (limit, float(iou_threshold.reshape(())), float(score_threshold.reshape(())))
    rows = [_kept_by_class(b.astype(np.float64), s, *limits) for b, s in zip(boxes, scores, strict=True)]
    batch, classes, count = scores.shape
    if output_format == "onnx":
        out = np.zeros((batch * classes * count, 3), np.int64)
        flat = [(n, *found) for n, row in enumerate(rows) for found in row]
        out[: len(flat)] = np.array(flat, np.int64).reshape(-1, 3)
        return out, np.array([len(flat)], np.int64)
    indices, values = np.zeros((batch, classes * count, 2), np.int64), np.zeros((batch, classes * count), np.float32)
    for n, row in enumerate(rows):
        indices[n, : len(row)] = np.array(row, np.int64).reshape(-1, 2)
        values[n, : len(row)] = [scores[n, label, index] for label, index in row]
    return indices, values, np.array([len(row) for row in rows], np.int64)


@kernel("vision.regular_non_max_suppression")
def regular_non_max_suppression(
    boxes: np.ndarray,
    scores: np.ndarray,
    *,
    max_detections_per_class: int,
    max_detections: int,
    num_classes: int,
    iou_threshold: float,
    score_threshold: float,
) -> tuple[np.ndarray, ...]:
    """The best of what is left of all classes; scores beside those of *num_classes* come first and are background."""
    batch = len(boxes)
    out, labels = np.zeros((batch, max_detections, 4), np.float32), np.zeros((batch, max_detections), np.float32)
    values, counts = np.zeros((batch, max_detections), np.float32), np.zeros(batch, np.float32)
    first = scores.shape[2] - num_classes
    for n in range(batch):
        found = []
        for label in range(num_classes):
            row = scores[n, :, first + label]
            order = np.argsort(-row, kind="stable")
            order = order[row[order] >= score_threshold]
            kept = suppressed(
                boxes[n].astype(np.float64), order, max_detections_per_class, lambda iou: iou > iou_threshold
            )
            found += [(-row[index], label, index) for index in kept]
        best = sorted(found, key=lambda item: item[0])[:max_detections]
        counts[n] = len(best)
        for k, (score, label, index) in enumerate(best):
            out[n, k], labels[n, k], values[n, k] = boxes[n, index], label, -score
    return out, labels, values, counts
