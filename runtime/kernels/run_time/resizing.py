"""The numpy kernel of resizing by scales, sizes and regions that inputs hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.images.interpolation import (
    MAX_WEIGHTS,
    ResizedAxis,
    Sampling,
    nearest_positions,
    original_positions,
    resized_sizes,
    taps,
)

CROPPED = "tf_crop_and_resize"


@dataclass(frozen=True, kw_only=True)
class ResizeTapsAttributes(KernelAttributes):
    """Attributes of ``dyn.resize_taps``."""

    axes: tuple[int, ...]
    axis: int
    mode: str = "nearest"
    coordinates: str = "asymmetric"
    nearest: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    policy: str = "stretch"
    check: str = ""


@kernel("dyn.resize_taps")
def resize_taps(
    shape: np.ndarray, roi: np.ndarray, scales: np.ndarray, sizes: np.ndarray, *, attrs: ResizeTapsAttributes
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For one axis of those that are resized ``(int64[new, taps], f64[new, taps], bool[new])``.

    Where the elements are taken, with what weights, and which resized elements lie outside of the original ones.
    Raises KernelError for scales, sizes or a region that ONNX does not allow.
    """
    where = attrs.check or "resize"
    axis = _axis([int(d) for d in shape], roi, scales, sizes, attrs, where)
    sampling = Sampling(
        attrs.mode, attrs.coordinates, attrs.nearest, attrs.cubic_a, attrs.exclude_outside, attrs.antialias
    )
    each = 1 if attrs.mode == "nearest" else 4 / (min(axis.scale, 1.0) if attrs.antialias else 1.0)
    if axis.new < 0 or axis.scale <= 0 or axis.size < 1 < 1 + axis.new or axis.new * each > MAX_WEIGHTS:
        raise KernelError(f"{where}: a dimension of {axis.size} cannot be resized to {axis.new}")
    if axis.size == axis.new and axis.scale == 1 and attrs.coordinates != CROPPED:
        return np.arange(axis.new)[:, None], np.ones((axis.new, 1)), np.zeros(axis.new, bool)
    x = original_positions(axis, sampling)
    outside = (x < 0) | (x > axis.size - 1)
    if attrs.mode == "nearest":
        return nearest_positions(axis, sampling)[:, None], np.ones((axis.new, 1)), outside
    return *taps(axis, sampling), outside


def _axis(
    shape: Sequence[int],
    roi: np.ndarray,
    scales: np.ndarray,
    sizes: np.ndarray,
    attrs: ResizeTapsAttributes,
    where: str,
) -> ResizedAxis:
    """The size before and after of the axis that is asked for, its scale, and the part of it that is taken."""
    count, k = len(attrs.axes), attrs.axes.index(attrs.axis)
    given = [[float(v) for v in values.reshape(-1)] for values in (scales, sizes)]
    if bool(given[0]) == bool(given[1]) or len(given[0] or given[1]) != count:
        raise KernelError(
            f"{where}: {count} axes are resized, by as many scales or sizes, got {given[0]} and {given[1]}"
        )
    numbers = given[0] or given[1]
    if not all(np.isfinite(v) and (v > 0 or (v == 0 and given[1])) for v in numbers):
        raise KernelError(f"{where}: {'scales' if given[0] else 'sizes'} must be positive, got {numbers}")
    before = [shape[a] for a in attrs.axes]
    if given[1] and attrs.policy != "stretch" and 0 in before:
        raise KernelError(f"{where}: a dimension of 0 has no aspect ratio to keep")
    new, scale = resized_sizes(before, given[0] or None, given[1] or None, attrs.policy)[k]
    if attrs.coordinates != CROPPED:
        return ResizedAxis(before[k], new, scale)
    if roi.size != 2 * count:
        raise KernelError(f"{where}: {CROPPED} needs a roi of {2 * count} numbers, got {roi.reshape(-1).tolist()}")
    edges = roi.reshape(2, count)[:, k]
    return ResizedAxis(before[k], new, scale, (float(edges[0]), float(edges[1])))
