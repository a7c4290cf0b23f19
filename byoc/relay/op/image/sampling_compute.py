"""One element of an image that is sampled at a free place, as an expression. The same steps stand in the numpy kernel.

A place is a float along each axis, in pixels. What lies outside is 0, or moved to the border, or reflected there; a NaN
is outside. Cubics move each pixel that they take, the others move the place.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from byoc import te
from byoc.relay.op.core.indexing import as_index, clamp
from byoc.te import PrimExpr, Tensor
from byoc.te.expr import Dimension

CUBIC = -0.75
Taps = list[tuple[PrimExpr, PrimExpr]]


def _last(size: Dimension, dtype: str) -> PrimExpr:
    return te.cast(dtype, as_index(size) - 1)


def pixels_of(place: PrimExpr, size: Dimension, align_corners: bool) -> PrimExpr:
    """A *place* in [-1, 1] in pixels: the ends are the middles of the outer pixels, or their edges."""
    last = _last(size, place.dtype)
    if align_corners:
        return (place + 1.0) * 0.5 * last
    return ((place + 1.0) * (last + 1.0) - 1.0) * 0.5


def _reflected(place: PrimExpr, size: Dimension, align_corners: bool) -> PrimExpr:
    last = _last(size, place.dtype)
    low, span = (0.0, last) if align_corners else (-0.5, last + 1.0)
    distance = te.abs(place - low)
    turns = te.floor(distance / span)
    rest = distance - turns * span
    even = (turns - te.floor(turns * 0.5) * 2.0) < 0.5
    folded = te.if_then_else(even, rest, span - rest) + low
    return te.if_then_else(span > 0.0, folded, te.const(0.0, place.dtype))


def placed(place: PrimExpr, size: Dimension, method: str, padding_mode: str, align_corners: bool) -> PrimExpr:
    """A *place* between pixels inside the image, where the padding says so.

    One that is reflected at the edge of the outer pixel may stay beyond its middle, where it is between the pixel and
    its own reflection: the next pixel has no part in it, not even times 0. A cubic mixes pixels that are moved one by
    one; the place stays, as near to the border as an infinity must be.
    """
    if method == "bicubic" and padding_mode == "border":
        return te.minimum(te.maximum(place, te.const(-2.0, place.dtype)), _last(size, place.dtype) + 2.0)
    if method == "bicubic":
        return place
    if padding_mode == "reflection":
        return _reflected(place, size, align_corners)
    return moved(place, size, padding_mode, align_corners)


def moved(place: PrimExpr, size: Dimension, padding_mode: str, align_corners: bool) -> PrimExpr:
    """A *place* that is a pixel inside the image, where the padding says so."""
    if padding_mode == "zeros":
        return place
    if padding_mode == "reflection":
        place = _reflected(place, size, align_corners)
    return te.minimum(te.maximum(place, te.const(0.0, place.dtype)), _last(size, place.dtype))


def taps_of(place: PrimExpr, method: str) -> Taps:
    """The pixels around *place* along one axis, and how much each counts."""
    floor = te.floor(place)
    t = place - floor
    if method == "nearest":
        return [(te.round(place), te.const(1.0, place.dtype))]
    if method == "bilinear":
        return [(floor, 1.0 - t), (floor + 1.0, t)]
    return [(floor + float(k), weight) for k, weight in zip((-1, 0, 1, 2), _cubic_weights(t), strict=True)]


def _cubic_weights(t: PrimExpr) -> list[PrimExpr]:
    """Weights of the pixels at -1, 0, 1, 2 from the floor (Keys, 1981)."""

    def near(x: PrimExpr) -> PrimExpr:
        return (x * (CUBIC + 2) - (CUBIC + 3)) * x * x + 1.0

    def far(x: PrimExpr) -> PrimExpr:
        return ((x * CUBIC - 5 * CUBIC) * x + 8 * CUBIC) * x - 4 * CUBIC

    return [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]


def sampled(
    data: Tensor, lead: Sequence[PrimExpr], taps: Sequence[Taps], padding_mode: str, align_corners: bool
) -> PrimExpr:
    """The weighted sum of the pixels of image *lead* (its batch and channel), one list of taps an axis."""
    sizes, zero = data.shape[2:], te.const(0.0, data.dtype)
    total: PrimExpr | None = None
    for combination in itertools.product(*taps):
        index: list[PrimExpr] = []
        conditions: list[PrimExpr] = []
        weight: PrimExpr | None = None
        for (place, part), size in zip(combination, sizes, strict=True):
            at = moved(place, size, padding_mode, align_corners)
            inside = te.all_of(at >= 0.0, at <= _last(size, at.dtype))
            conditions.append(inside)
            index.append(clamp(te.cast("int32", te.if_then_else(inside, at, te.const(0.0, at.dtype))), size))
            weight = part if weight is None else weight * part
        assert weight is not None  # an image has an axis
        value = te.if_then_else(te.all_of(*conditions), data(*lead, *index) * te.cast(data.dtype, weight), zero)
        total = value if total is None else total + value
    assert total is not None
    return total
