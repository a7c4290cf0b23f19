"""Resizing of axes whose sizes are known only at run time: the positions are computed by the graph itself.

The same formulas as in ``interpolation``, as expressions of the size before and after; where they need more than these
(scales of the run, antialias, regions), a kernel computes them. Source: ONNX Resize-19.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.rounding import rounded, working_dtype
from byoc.relay.op.run_time.resizing import ResizeTapsAttrs
from byoc.runtime.kernels.images.interpolation import Sampling


def f64(value: float) -> RelayExpr:
    """A constant for computing positions, which are float64."""
    return constant(value, "float64")


@dataclass(frozen=True)
class RunTimeAxis:
    """One axis: its place, and as float64 scalars of the graph its size before and after, and the scale."""

    position: int
    size: RelayExpr
    new: RelayExpr
    scale: RelayExpr


def size_of(data: RelayExpr, axis: int) -> RelayExpr:
    """The size of a dimension, as a float64 scalar."""
    return relay.cast(relay.take(relay.shape_of(data, "int64"), constant(axis, "int64")), "float64")


def by_scale(data: RelayExpr, axis: int, scale: float) -> RunTimeAxis:
    """An axis that grows by a factor; its new size is rounded down."""
    size = size_of(data, axis)
    return RunTimeAxis(axis, size, relay.floor(relay.multiply(size, f64(scale))), f64(scale))


def by_size(data: RelayExpr, axis: int, new: RelayExpr) -> RunTimeAxis:
    """An axis of a given new size, an integer scalar."""
    size, wanted = size_of(data, axis), relay.cast(new, "float64")
    return RunTimeAxis(axis, size, wanted, relay.divide(wanted, size))


def _half_pixel(x: RelayExpr, a: RunTimeAxis) -> RelayExpr:
    return relay.subtract(relay.divide(relay.add(x, f64(0.5)), a.scale), f64(0.5))


def _pytorch_half_pixel(x: RelayExpr, a: RunTimeAxis) -> RelayExpr:
    return relay.where(relay.greater(a.new, f64(1)), _half_pixel(x, a), relay.zeros_like(x))


def _align_corners(x: RelayExpr, a: RunTimeAxis) -> RelayExpr:
    length = relay.multiply(a.scale, a.size)
    single = relay.logical_or(relay.equal(length, f64(1)), relay.equal(a.new, f64(1)))
    step = relay.divide(relay.subtract(a.size, f64(1)), relay.subtract(length, f64(1)))
    return relay.where(single, relay.zeros_like(x), relay.multiply(x, step))


def _symmetric(x: RelayExpr, a: RunTimeAxis) -> RelayExpr:
    kept = relay.divide(a.new, relay.multiply(a.scale, a.size))
    offset = relay.multiply(relay.divide(a.size, f64(2)), relay.subtract(f64(1), kept))
    return relay.add(offset, _half_pixel(x, a))


_COORDINATES: dict[str, Callable[[RelayExpr, RunTimeAxis], RelayExpr]] = {
    "asymmetric": lambda x, a: relay.divide(x, a.scale),
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "half_pixel_symmetric": _symmetric,
    "tf_half_pixel_for_nn": lambda x, a: relay.divide(relay.add(x, f64(0.5)), a.scale),
}
_NEAREST: dict[str, Callable[[RelayExpr], RelayExpr]] = {
    "floor": relay.floor,
    "ceil": relay.ceil,
    "round_prefer_floor": lambda x: relay.ceil(relay.subtract(x, f64(0.5))),
    "round_prefer_ceil": lambda x: relay.floor(relay.add(x, f64(0.5))),
}


def _cubic(t: RelayExpr, a: float) -> list[tuple[int, RelayExpr]]:
    """Weights of the elements at -1, 0, 1, 2 from the floor. Source: R. Keys, 1981."""

    def polynomial(d: RelayExpr, *coefficients: float) -> RelayExpr:
        value = f64(coefficients[0])
        for coefficient in coefficients[1:]:
            value = relay.add(relay.multiply(value, d), f64(coefficient))
        return value

    near, far = (a + 2, -(a + 3), 0.0, 1.0), (a, -5 * a, 8 * a, -4 * a)
    rest = relay.subtract(f64(1), t)
    return [
        (-1, polynomial(relay.add(t, f64(1)), *far)),
        (0, polynomial(t, *near)),
        (1, polynomial(rest, *near)),
        (2, polynomial(relay.add(rest, f64(1)), *far)),
    ]


def _linear(t: RelayExpr, a: float) -> list[tuple[int, RelayExpr]]:
    return [(0, relay.subtract(f64(1), t)), (1, t)]


_WEIGHTS: dict[str, Callable[[RelayExpr, float], list[tuple[int, RelayExpr]]]] = {"linear": _linear, "cubic": _cubic}


def needs_known_sizes(sampling: Sampling) -> bool:
    """True for what :func:`resized_at_run_time` cannot do: antialias, exclude_outside, tf_crop_and_resize."""
    return sampling.coordinates not in _COORDINATES or sampling.antialias or sampling.exclude_outside


def resized_at_run_time(node: OnnxNode, data: RelayExpr, axis: RunTimeAxis, sampling: Sampling) -> RelayExpr:
    """*data* with one axis resized by a *sampling* that does not need known sizes."""
    x = relay.arange(f64(0), axis.new, f64(1), dtype="float64")
    place = _COORDINATES[sampling.coordinates](x, axis)
    if sampling.mode == "nearest":
        return _taken(data, _NEAREST[sampling.nearest](place), axis)
    base = relay.floor(place)
    ones = [1] * (node.rank(data) - 1 - axis.position)
    dtype, parts = node.dtype(data), []
    for offset, weight in _WEIGHTS[sampling.mode](relay.subtract(place, base), sampling.cubic_a):
        share = relay.cast(relay.reshape(weight, [-1, *ones]), dtype)
        zero = constant(0.0, dtype)
        part = relay.multiply(_taken(data, relay.add(base, f64(offset)), axis), share)
        parts.append(relay.where(relay.equal(share, zero), zero, part))  # what does not count may be a NaN
    total = parts[0]
    for part in parts[1:]:
        total = relay.add(total, part)
    return total


def _taken(data: RelayExpr, places: RelayExpr, axis: RunTimeAxis) -> RelayExpr:
    """The elements at *places* of the axis; beyond the edge they repeat it."""
    last = relay.subtract(axis.size, f64(1))
    inside = relay.maximum(relay.minimum(places, last), f64(0))
    return relay.take(data, relay.cast(inside, "int64"), axis=axis.position)


def resized_by_inputs(
    node: OnnxNode, axes: Sequence[int], sampling: Sampling, given: tuple[RelayExpr | None, ...]
) -> RelayExpr:
    """The data with *axes* resized as the inputs *given* say: a region, scales and sizes, of which some are not there.

    Each axis that is listed is made anew, whether it changes or not, which only the run knows.
    """
    dtype, data, rank = node.dtype(node[0]), node[0], node.rank(node[0])
    shape = relay.shape_of(node[0], "int64")
    nothing = (constant([], "float32"), constant([], "float32"), constant([], "int64"))
    roi, scales, sizes = (
        none if value is None else relay.reshape(value, [-1]) for value, none in zip(given, nothing, strict=True)
    )
    is_nearest, outside = sampling.mode == "nearest", None
    data = data if is_nearest else relay.cast(data, working_dtype(dtype))
    working = node.dtype(data)
    for axis in axes:
        attrs = ResizeTapsAttrs(
            tuple(axes),
            axis,
            sampling.mode,
            sampling.coordinates,
            sampling.nearest,
            sampling.cubic_a,
            sampling.exclude_outside,
            sampling.antialias,
            node.attrs.string("keep_aspect_ratio_policy", "stretch"),
            node.place,
        )
        found = relay.resize_taps(shape, roi, scales, sizes, attrs)
        if is_nearest:
            data = relay.take(data, relay.reshape(found[0], [-1]), axis=axis)
        else:
            data = relay.image.resample(data, found[0], relay.cast(found[1], working), axis=axis)
        if sampling.coordinates == "tf_crop_and_resize":
            mask = relay.reshape(found[2], [-1, *[1] * (rank - 1 - axis)])
            outside = mask if outside is None else relay.logical_or(outside, mask)
    result = data if is_nearest else rounded(data, dtype)
    if outside is None:
        return result
    filler = node.like(node.attrs.float("extrapolation_value", 0.0), result)
    return relay.where(outside, filler, result)
