"""Where an output element of a resize lies in the input, as an exact fraction; and the stages of a resize.

Along one axis output *i* lies at ``(offset + step i) / denominator``, all integers (or sizes known at run
time), so that floors and ties are exact. Each axis is one stage.
The same fractions stand in ``byoc.runtime.kernels.images.image``. Source: the ``coordinate_transformation_mode`` of
ONNX's Resize, and Relay's ``image.resize2d``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from byoc import te
from byoc.relay.op.core.indexing import as_index
from byoc.runtime.kernels.core.rounding import integer_limits
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.expr import Dimension

ROI_DENOMINATOR = 2**16
Places = tuple[Dimension, Dimension, int]  # offset, step, denominator
RegionOfInterest = tuple[float, float]


def _half_pixel(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    return size - out, size * 2, 2 * out


def _pytorch_half_pixel(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    return _half_pixel(size, out, roi) if out > 1 else (0, 0, 1)


def _align_corners(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    return (0, size - 1, out - 1) if out > 1 else (0, 0, 1)


def _asymmetric(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    return 0, size, out


def _tf_half_pixel_for_nn(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    return size, size * 2, 2 * out


def _tf_crop_and_resize(size: Dimension, out: int, roi: RegionOfInterest) -> Places:
    start, end = (Fraction(float(r)).limit_denominator(ROI_DENOMINATOR) for r in roi)
    scale = start.denominator * end.denominator
    a, b = int(start * scale), int(end * scale)
    if out == 1:
        return (size - 1) * (a + b), 0, 2 * scale
    return (size - 1) * (a * (out - 1)), (size - 1) * (b - a), scale * (out - 1)


MODES: dict[str, Callable[[Dimension, int, RegionOfInterest], Places]] = {
    "half_pixel": _half_pixel,
    "pytorch_half_pixel": _pytorch_half_pixel,
    "align_corners": _align_corners,
    "asymmetric": _asymmetric,
    "tf_half_pixel_for_nn": _tf_half_pixel_for_nn,
    "tf_crop_and_resize": _tf_crop_and_resize,
}
# (floor, remainder, denominator) -> nearest; ``round`` breaks ties upwards, for places below 0 are clipped to 0
ROUNDINGS: dict[str, Callable[[PrimExpr, PrimExpr, int], PrimExpr]] = {
    "round": lambda f, r, d: te.if_then_else(r * 2 >= d, f + 1, f),
    "round_prefer_ceil": lambda f, r, d: te.if_then_else(r * 2 >= d, f + 1, f),
    "round_prefer_floor": lambda f, r, d: te.if_then_else(r * 2 > d, f + 1, f),
    "floor": lambda f, r, d: f,
    "ceil": lambda f, r, d: te.if_then_else(r > 0, f + 1, f),
}
# short floats and bytes: in float32 what lies near a tie of longer integers would be rounded the wrong way
IN_FLOAT32 = frozenset(["float32", "float16", "bfloat16", "int8", "uint8", "bool"])
METHODS = ("nearest_neighbor", "linear", "cubic")


@dataclass(frozen=True)
class Interpolation:
    """How elements between pixels are made; *outside* is the value beyond the image, None to repeat its edge."""

    method: str
    mode: str
    rounding: str
    alpha: float = -0.5
    exclude: bool = False
    outside: float | None = None


def _cubic_weights(t: PrimExpr, a: float) -> list[PrimExpr]:
    """Weights of the elements at -1, 0, 1, 2 from the floor, for a fraction *t* (Keys, 1981)."""

    def near(x: PrimExpr) -> PrimExpr:
        return (x * (a + 2) - (a + 3)) * x * x + 1.0

    def far(x: PrimExpr) -> PrimExpr:
        return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def _clipped(place: PrimExpr, size: Dimension) -> PrimExpr:
    return te.minimum(te.maximum(place, 0), as_index(size) - 1)


def _weights(how: Interpolation, floor: PrimExpr, t: PrimExpr, size: Dimension) -> list[tuple[PrimExpr, PrimExpr]]:
    if how.method == "linear":
        return [(floor, 1.0 - t), (floor + 1, t)]
    places = [floor + k for k in (-1, 0, 1, 2)]
    weights = _cubic_weights(t, how.alpha)
    if how.exclude:
        zero = te.const(0.0, t.dtype)
        weights = [te.if_then_else(te.all_of(p >= 0, p < size), w, zero) for p, w in zip(places, weights, strict=True)]
        total = weights[0] + weights[1] + weights[2] + weights[3]
        weights = [w / total for w in weights]
    return list(zip(places, weights, strict=True))


def resize_axis(data: Tensor, axis: int, out: int, places: Places, how: Interpolation) -> Tensor:
    """*data* resized along one axis to *out* elements: one stage."""
    size, (offset, step, denominator) = data.shape[axis], places

    def load(index: Sequence[PrimExpr], place: PrimExpr) -> PrimExpr:
        return data(*index[:axis], _clipped(place, size), *index[axis + 1 :])

    def element(*index: Index) -> PrimExpr:
        numerator = as_index(offset) + index[axis] * step
        floor, rest = numerator // denominator, numerator % denominator
        if how.method == "nearest_neighbor":
            value = load(index, ROUNDINGS[how.rounding](floor, rest, denominator))
        else:
            t = te.cast(data.dtype, rest) / te.const(float(denominator), data.dtype)
            taps = [load(index, place) * weight for place, weight in _weights(how, floor, t, size)]
            value = taps[0]
            for tap in taps[1:]:
                value = value + tap
        if how.outside is None:
            return value
        inside = te.all_of(numerator >= 0, numerator <= (as_index(size) - 1) * denominator)
        return te.if_then_else(inside, value, te.const(how.outside, data.dtype))

    shape = (*data.shape[:axis], out, *data.shape[axis + 1 :])
    return te.compute(shape, element, name=f"resize_{axis}")


def resize_stages(
    data: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    regions: Sequence[RegionOfInterest],
    how: Interpolation,
    dtype: str,
) -> Tensor:
    """*data* resized along *axes* to *sizes*, as *dtype*; short numbers are interpolated in float32, others in float64.

    Integers are rounded to the nearest, ties to even, and stop at their limits.
    """
    value = data
    work = data.dtype
    if how.method != "nearest_neighbor":
        work = "float32" if work in IN_FLOAT32 else "float64"
    if work != data.dtype:
        value = te.compute(data.shape, lambda *i: te.cast(work, data(*i)), name="resize_in")
    for axis, out, region in zip(axes, sizes, regions, strict=True):
        value = resize_axis(value, axis, out, MODES[how.mode](value.shape[axis], out, region), how)
    if value.dtype == dtype:
        return value
    done = value
    return te.compute(done.shape, lambda *i: _converted(done(*i), dtype), name="resize_out")


def _converted(value: PrimExpr, dtype: str) -> PrimExpr:
    """*value* as *dtype*, where a float becomes the nearest integer that there is."""
    if "int" not in dtype or "float" not in value.dtype:
        return te.cast(dtype, value)
    low, high = integer_limits(dtype, value.dtype)
    kept = te.minimum(te.maximum(te.round(value), te.const(low, value.dtype)), te.const(high, value.dtype))
    return te.cast(dtype, kept)
