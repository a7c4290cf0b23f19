"""Numpy kernels of resizing, one axis after another.

The place of an output element in the input is a fraction ``(offset + step i) / denominator`` of integers, so that its
floor and its distance from a half are exact. The same fractions stand in ``byoc.relay.op.image.coordinates``, from
which code is generated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, spatial_letters, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.core.rounding import saturated
from byoc.runtime.kernels.nn.blocked import kernel_in_blocks

_IN_FLOAT32 = frozenset(["float32", "float16", "bfloat16", "int8", "uint8", "bool"])  # others in float64
ROI_DENOMINATOR = 2**16
Places = tuple[int, int, int]  # offset, step, denominator


def _half_pixel(size: int, out: int, roi: tuple[float, float]) -> Places:
    return size - out, 2 * size, 2 * out


def _pytorch_half_pixel(size: int, out: int, roi: tuple[float, float]) -> Places:
    return _half_pixel(size, out, roi) if out > 1 else (0, 0, 1)


def _align_corners(size: int, out: int, roi: tuple[float, float]) -> Places:
    return (0, size - 1, out - 1) if out > 1 else (0, 0, 1)


def _asymmetric(size: int, out: int, roi: tuple[float, float]) -> Places:
    return 0, size, out


def _tf_half_pixel_for_nn(size: int, out: int, roi: tuple[float, float]) -> Places:
    return size, 2 * size, 2 * out


def _tf_crop_and_resize(size: int, out: int, roi: tuple[float, float]) -> Places:
    start, end = (Fraction(float(r)).limit_denominator(ROI_DENOMINATOR) for r in roi)
    scale = start.denominator * end.denominator
    a, b = int(start * scale), int(end * scale)
    if out == 1:
        return (a + b) * (size - 1), 0, 2 * scale
    return a * (size - 1) * (out - 1), (b - a) * (size - 1), scale * (out - 1)


_PLACES: dict[str, Callable[[int, int, tuple[float, float]], Places]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
# (floor, remainder, denominator) -> nearest; ``round`` breaks ties upwards, for places below 0 are clipped to 0
_ROUND: dict[str, Callable[[np.ndarray, np.ndarray, int], np.ndarray]] = {
    "round": lambda f, r, d: f + (2 * r >= d),
    "round_prefer_ceil": lambda f, r, d: f + (2 * r >= d),
    "round_prefer_floor": lambda f, r, d: f + (2 * r > d),
    "floor": lambda f, r, d: f,
    "ceil": lambda f, r, d: f + (r > 0),
}


def cubic_weights(t: np.ndarray, a: float) -> list[np.ndarray]:
    """Weights of the elements at -1, 0, 1, 2 from the floor, for a fraction *t* (Keys, 1981)."""

    def near(x: np.ndarray) -> np.ndarray:
        return np.asarray(((a + 2) * x - (a + 3)) * x * x + 1)

    def far(x: np.ndarray) -> np.ndarray:
        return np.asarray(((a * x - 5 * a) * x + 8 * a) * x - 4 * a)

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@dataclass(frozen=True)
class _Interpolation:
    """How elements between pixels are made; *outside* is the value beyond the image, None to repeat its edge."""

    method: str
    rounding: str
    alpha: float
    exclude: bool
    outside: float | None


def _taps(
    floor: np.ndarray, rest: np.ndarray, denominator: int, size: int, how: _Interpolation
) -> list[tuple[np.ndarray, np.ndarray | None]]:
    """Indices and weights along one axis; a weight of None is 1."""
    t = rest / denominator
    if how.method == "nearest_neighbor":
        return [(_ROUND[how.rounding](floor, rest, denominator), None)]
    if how.method == "linear":
        return [(floor, 1 - t), (floor + 1, t)]
    places = [floor + k for k in (-1, 0, 1, 2)]
    weights = cubic_weights(t, how.alpha)
    if how.exclude:
        weights = [np.where((p >= 0) & (p < size), w, 0.0) for p, w in zip(places, weights, strict=True)]
        total = sum(weights)
        weights = [w / total for w in weights]
    return list(zip(places, weights, strict=True))


def _resize_axis(data: np.ndarray, axis: int, places: Places, out: int, how: _Interpolation) -> np.ndarray:
    offset, step, denominator = places
    size, ndim = data.shape[axis], data.ndim
    numerator = offset + step * np.arange(out, dtype=np.int64)
    floor, rest = numerator // denominator, numerator % denominator
    value: np.ndarray | None = None
    for index, weight in _taps(floor, rest, denominator, size, how):
        piece = np.take(data, np.clip(index, 0, size - 1), axis)
        if weight is not None:
            piece = piece * weight.astype(data.dtype).reshape([-1 if k == axis else 1 for k in range(ndim)])
        value = piece if value is None else value + piece
    assert value is not None  # there is a tap at least
    if how.outside is not None:
        beyond = (numerator < 0) | (numerator > (size - 1) * denominator)
        value[(slice(None),) * axis + (beyond,)] = how.outside
    return value


@dataclass(frozen=True, kw_only=True)
class InterpolationAttributes(KernelAttributes):
    """How an image is resized, without the size."""

    layout: str
    method: str = "linear"
    coordinate_transformation_mode: str = "half_pixel"
    rounding_method: str = ""
    cubic_alpha: float = -0.5
    cubic_exclude: int = 0
    extrapolation_value: float = 0.0
    out_dtype: str = ""


@dataclass(frozen=True, kw_only=True)
class ResizeAttributes(InterpolationAttributes):
    """Attributes of resizing; *roi* is all starts and then all ends, as parts of the image."""

    size: tuple[int, ...]
    roi: tuple[float, ...] = ()


@kernel_in_blocks("image.resize1d", "image.resize2d", "image.resize3d")
def resize(data: np.ndarray, *, attrs: ResizeAttributes) -> np.ndarray:
    """Resize the spatial axes to *size* by nearest neighbour, linear or cubic interpolation."""
    n = len(attrs.size)
    mode = attrs.coordinate_transformation_mode
    if mode not in _PLACES:
        raise KernelError(f"resize: coordinate_transformation_mode is one of {', '.join(_PLACES)}, got {mode!r}")
    letters = "NC" + spatial_letters(n)
    out = np.dtype(attrs.out_dtype) if attrs.out_dtype else data.dtype
    value = to_letters(data, attrs.layout, letters)
    if attrs.method != "nearest_neighbor":
        value = value.astype(np.float32 if data.dtype.name in _IN_FLOAT32 else np.float64, copy=False)
    how = _Interpolation(
        attrs.method,
        attrs.rounding_method or ("round" if mode == "align_corners" else "floor"),
        attrs.cubic_alpha,
        bool(attrs.cubic_exclude),
        attrs.extrapolation_value if mode == "tf_crop_and_resize" else None,
    )
    for k, extent in enumerate(attrs.size):
        region = (attrs.roi[k], attrs.roi[n + k]) if attrs.roi else (0.0, 1.0)
        places = _PLACES[mode](value.shape[2 + k], extent, region)
        value = _resize_axis(value, 2 + k, places, extent, how)
    return from_letters(saturated(value, out), letters, attrs.layout)


@kernel("image.resample")
def resample(data: np.ndarray, positions: np.ndarray, weights: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """Each element of an axis made anew as a weighted sum of a few of the old ones."""
    axis %= data.ndim
    places = np.clip(positions, 0, max(data.shape[axis] - 1, 0))
    shape = [-1 if k == axis else 1 for k in range(data.ndim)]
    value = np.zeros((*data.shape[:axis], len(places), *data.shape[axis + 1 :]), data.dtype)
    for place, weight in zip(places.T, weights.T, strict=True):
        value += np.take(data, place, axis) * weight.reshape(shape)
    return value


def _upsample(data: np.ndarray, scales: Sequence[float], layout: str, method: str, mode: str) -> np.ndarray:
    spatial = to_letters(data, layout, "NC" + spatial_letters(len(scales))).shape[2:]
    size = tuple(round(s * f) for s, f in zip(spatial, scales, strict=True))
    names = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
    method = names.get(method, method)
    attrs = ResizeAttributes(size=size, layout=layout, method=method, coordinate_transformation_mode=mode)
    return resize(data, attrs=attrs)


@kernel_in_blocks("nn.upsampling")
def upsampling(
    data: np.ndarray,
    *,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> np.ndarray:
    """Enlarge height and width by factors."""
    return _upsample(data, (scale_h, scale_w), layout, method, "align_corners" if align_corners else "asymmetric")


@kernel_in_blocks("nn.upsampling3d")
def upsampling3d(
    data: np.ndarray,
    *,
    scale_d: float = 1.0,
    scale_h: float = 1.0,
    scale_w: float = 1.0,
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "half_pixel",
) -> np.ndarray:
    """Enlarge depth, height and width by factors."""
    return _upsample(data, (scale_d, scale_h, scale_w), layout, method, coordinate_transformation_mode)
