"""Resizing in numpy, by the formula of each output element. Source: ``tvm.topi.testing.resize_python``.

Each axis is resized on its own, as the weights of nearest, linear and cubic interpolation are products. ONNX's Resize
names the transformations of coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from byoc.errors import UserError

# (output index, input size, output size) -> place in the input
_PLACES: dict[str, Callable[[int, int, int], float]] = {
    "asymmetric": lambda i, size, out: i * size / out,
    "half_pixel": lambda i, size, out: (i + 0.5) * size / out - 0.5,
    "align_corners": lambda i, size, out: i * (size - 1) / (out - 1) if out > 1 else 0.0,
}


def _nearest(place: float, mode: str) -> dict[int, float]:
    """align_corners takes the nearest number, the others that below (with a little for rounding errors)."""
    return {math.floor(place + 0.5) if mode == "align_corners" else math.floor(place + 1e-5): 1.0}


def _linear(place: float, mode: str) -> dict[int, float]:
    low = math.floor(place)
    return {low: 1 - (place - low), low + 1: place - low}


def _cubic(place: float, mode: str, alpha: float = -0.5) -> dict[int, float]:
    low = math.floor(place)
    t = place - low

    def near(x: float) -> float:
        return ((alpha + 2) * x - (alpha + 3)) * x * x + 1

    def far(x: float) -> float:
        return ((alpha * x - 5 * alpha) * x + 8 * alpha) * x - 4 * alpha

    return {low - 1: far(1 + t), low: near(t), low + 1: near(1 - t), low + 2: far(2 - t)}


_WEIGHTS: dict[str, Callable[[float, str], dict[int, float]]] = {
    "nearest_neighbor": _nearest,
    "linear": _linear,
    "bilinear": _linear,
    "trilinear": _linear,
    "cubic": _cubic,
    "bicubic": _cubic,
    "tricubic": _cubic,
}


def _matrix(size: int, out: int, method: str, mode: str) -> np.ndarray:
    """The weights [out, size] of one axis; places outside the data count as its border."""
    result = np.zeros((out, size))
    for i in range(out):
        for j, weight in _WEIGHTS[method](_PLACES[mode](i, size, out), mode).items():
            result[i, min(max(j, 0), size - 1)] += weight
    return result


def resize(data: np.ndarray, sizes: Sequence[int], axes: Sequence[int], method: str, mode: str) -> np.ndarray:
    """*data* with the given *axes* resized to *sizes*. Raises UserError for an unknown method or transformation."""
    if method not in _WEIGHTS or mode not in _PLACES:
        raise UserError(
            f"known methods are {', '.join(_WEIGHTS)}, known transformations {', '.join(_PLACES)}; "
            f"got {method!r} and {mode!r}"
        )
    result = data.astype("float64")
    for axis, out in zip(axes, sizes, strict=True):
        weights = _matrix(data.shape[axis], out, method, mode)
        result = np.moveaxis(np.tensordot(weights, result, axes=(1, axis)), 0, axis)
    return result.astype(data.dtype)


def _scaled(
    data: np.ndarray, scale: float | Sequence[float], layout: str, spatial: str, method: str, mode: str
) -> np.ndarray:
    axes = [layout.index(letter) for letter in spatial]
    factors = scale if isinstance(scale, (list, tuple)) else [scale] * len(axes)
    sizes = [round(data.shape[axis] * factor) for axis, factor in zip(axes, factors, strict=True)]
    return resize(data, sizes, axes, method, mode)


def resize1d_python(
    data: np.ndarray,
    scale: float | Sequence[float],
    layout: str = "NCW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "asymmetric",
) -> np.ndarray:
    """The axis W of *data*, times *scale*."""
    return _scaled(data, scale, layout, "W", method, coordinate_transformation_mode)


def resize2d_python(
    data: np.ndarray,
    scale: float | Sequence[float],
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "asymmetric",
) -> np.ndarray:
    """The axes H and W of *data*, times *scale*."""
    return _scaled(data, scale, layout, "HW", method, coordinate_transformation_mode)


def resize3d_python(
    data: np.ndarray,
    scale: float | Sequence[float],
    layout: str = "NCDHW",
    method: str = "nearest_neighbor",
    coordinate_transformation_mode: str = "asymmetric",
) -> np.ndarray:
    """The axes D, H and W of *data*, times *scale*."""
    return _scaled(data, scale, layout, "DHW", method, coordinate_transformation_mode)
