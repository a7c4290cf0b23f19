"""Which elements along one axis make each element of the resized axis, and with what weights.

Source: ONNX Resize-19 and its reference implementation; the names of the modes are ONNX's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

MAX_WEIGHTS = 1 << 22  # of one axis: more is a damaged model, not a picture


@dataclass(frozen=True)
class Sampling:
    """How a resized element is made from the original ones; the fields are the attributes of Resize."""

    mode: str = "nearest"
    coordinates: str = "asymmetric"
    nearest: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False


@dataclass(frozen=True)
class ResizedAxis:
    """One axis: its size before and after, the scale, and the part of it that is taken (``tf_crop_and_resize``)."""

    size: int
    new: int
    scale: float
    roi: tuple[float, float] = (0.0, 1.0)


def _align_corners(x: np.ndarray, a: ResizedAxis) -> np.ndarray:
    length = a.scale * a.size
    return x * 0 if length == 1 or a.new == 1 else x * (a.size - 1) / (length - 1)


def _half_pixel(x: np.ndarray, a: ResizedAxis) -> np.ndarray:
    return (x + 0.5) / a.scale - 0.5


def _symmetric(x: np.ndarray, a: ResizedAxis) -> np.ndarray:
    offset = a.size / 2 * (1 - a.new / (a.scale * a.size))
    return offset + _half_pixel(x, a)


def _crop(x: np.ndarray, a: ResizedAxis) -> np.ndarray:
    first, last = (edge * (a.size - 1) for edge in a.roi)
    return first + x * (last - first) / (a.new - 1) if a.new > 1 else x * 0 + 0.5 * (first + last)


COORDINATES: dict[str, Callable[[np.ndarray, ResizedAxis], np.ndarray]] = {
    "asymmetric": lambda x, a: x / a.scale,
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": lambda x, a: _half_pixel(x, a) if a.new > 1 else x * 0,
    "align_corners": _align_corners,
    "half_pixel_symmetric": _symmetric,
    "tf_crop_and_resize": _crop,
    "tf_half_pixel_for_nn": lambda x, a: (x + 0.5) / a.scale,
}
NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "floor": np.floor,
    "ceil": np.ceil,
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
}


# how keep_aspect_ratio_policy picks one scale for all axes; each has its own by "stretch"
POLICIES: dict[str, Callable[[Sequence[float]], float] | None] = {
    "stretch": None,
    "not_larger": min,
    "not_smaller": max,
}


def resized_sizes(
    shape: Sequence[int], scales: Sequence[float] | None, sizes: Sequence[float] | None, policy: str = "stretch"
) -> list[tuple[int, float]]:
    """The new size of each axis of *shape*, and its scale, by *scales* or by *sizes* under a *policy*."""
    if scales is not None:
        return [(math.floor(d * s), s) for d, s in zip(shape, scales, strict=True)]
    wanted = sizes or ()
    own = [new / d if d else math.inf if new else 1.0 for d, new in zip(shape, wanted, strict=True)]
    choose = POLICIES[policy]
    if choose is None:
        return [(int(new), scale) for new, scale in zip(wanted, own, strict=True)]
    scale = choose(own)
    return [(math.floor(d * scale + 0.5), scale) for d in shape]


def original_positions(axis: ResizedAxis, sampling: Sampling) -> np.ndarray:
    """Where each resized element lies on the original axis, as f64[new]."""
    return COORDINATES[sampling.coordinates](np.arange(axis.new, dtype=np.float64), axis)


def nearest_positions(axis: ResizedAxis, sampling: Sampling) -> np.ndarray:
    """The original element that each resized one copies, as i64[new]."""
    chosen = NEAREST[sampling.nearest](original_positions(axis, sampling))
    result: np.ndarray = np.clip(chosen, 0, axis.size - 1).astype(np.int64)
    return result


def _triangle(distance: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.clip(1 - np.abs(distance), 0, 1)
    return result


def _keys(distance: np.ndarray, a: float) -> np.ndarray:
    """The cubic convolution kernel. Source: R. Keys, 1981."""
    d = np.abs(distance)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def taps(axis: ResizedAxis, sampling: Sampling) -> tuple[np.ndarray, np.ndarray]:
    """The original elements that make each resized one, as i64[new, taps], and their shares, as f64[new, taps].

    Elements beyond the edge repeat it. A tap without a share is put on another one of the same element, which shares
    with it: an element that does not count must not be read, for a NaN times nothing is a NaN.
    """
    cubic = sampling.mode == "cubic"
    shrink = min(axis.scale, 1.0) if sampling.antialias else 1.0
    reach = (2 if cubic else 1) / shrink
    x = original_positions(axis, sampling)
    places = np.floor(x)[:, None] + np.arange(np.floor(-reach) + 1, np.ceil(reach) + 1)[None, :]
    distance = (places - x[:, None]) * shrink
    weights = _keys(distance, sampling.cubic_a) if cubic else _triangle(distance)
    if sampling.exclude_outside:
        weights = np.where((places < 0) | (places >= axis.size), 0.0, weights)
    if sampling.antialias or sampling.exclude_outside:
        weights = weights / weights.sum(axis=1, keepdims=True)
    return _shared(np.clip(places, 0, axis.size - 1).astype(np.int64), weights)


def _shared(places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """*places* and *weights* where every weight of 0 has got the place, and a half or less of the weight, of another.

    Halves are exact, so that the sum of a row is what it was. Columns that no row needs are left out.
    """
    order = np.argsort(weights == 0, axis=1, kind="stable")  # what counts first
    places, weights = np.take_along_axis(places, order, 1), np.take_along_axis(weights, order, 1)
    needed = max(int((weights != 0).sum(axis=1).max(initial=1)), 1)
    places, weights = places[:, :needed].copy(), weights[:, :needed].copy()
    for k in range(1, needed):
        idle = weights[:, k] == 0
        places[idle, k] = places[idle, k - 1]
        weights[idle, k - 1] /= 2
        weights[idle, k] = weights[idle, k - 1]
    return places, weights
