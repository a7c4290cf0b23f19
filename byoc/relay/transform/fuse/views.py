"""Views: a value as the elements of another in another shape and order, by reshapes and transposes alone.

Each axis of a view is a row of factors ``(size, stride)``, the outermost first, over the elements of a dense base: an
index along the axis is split by the sizes, and each part steps through the base by its stride. A transpose permutes
axes; a reshape cuts and joins them, which can always be written so unless a cut falls inside a factor unevenly.
Factors that follow each other without a gap are one, so that views of equal meaning are equal. Source: the layout
algebra of CUTLASS's CuTe, with sizes known when compiling.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Factor = tuple[int, int]
Axis = tuple[Factor, ...]


def _joined(factors: Sequence[Factor]) -> Axis:
    """*factors* without ones, those that follow each other without a gap made one."""
    result: list[Factor] = []
    for size, stride in factors:
        if size == 1:
            continue
        if result and result[-1][1] == size * stride:
            result[-1] = (result[-1][0] * size, stride)
        else:
            result.append((size, stride))
    return tuple(result)


def _taken(rest: list[Factor], size: int) -> list[Factor] | None:
    """Factors of *size* elements from the front of *rest*, which loses them; None where a cut is uneven."""
    taken: list[Factor] = []
    while size > 1:
        extent, stride = rest.pop(0)
        if size % extent == 0:
            taken.append((extent, stride))
            size //= extent
        elif extent % size == 0:
            taken.append((size, stride * (extent // size)))
            rest.insert(0, (extent // size, stride))
            size = 1
        else:
            return None
    return taken


@dataclass(frozen=True)
class View:
    """A view: the factors of each axis."""

    axes: tuple[Axis, ...]

    @classmethod
    def of_shape(cls, shape: Sequence[int]) -> View:
        """The view of a dense value of *shape* as itself."""
        strides = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
        return cls(tuple(_joined([pair]) for pair in zip(shape, strides, strict=True)))

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return tuple(math.prod(size for size, _ in axis) for axis in self.axes)

    @property
    def is_dense(self) -> bool:
        """True when the elements come in the order of the base: the view is a reshape."""
        return len(_joined([f for axis in self.axes for f in axis])) <= 1

    def transposed(self, order: Sequence[int]) -> View:
        """The axes in another order."""
        return View(tuple(self.axes[k] for k in order))

    def reshaped(self, shape: Sequence[int]) -> View | None:
        """The same elements in another shape; None where a cut falls unevenly into a factor."""
        rest = list(_joined([factor for axis in self.axes for factor in axis]))
        axes = []
        for size in shape:
            taken = _taken(rest, size)
            if taken is None:
                return None
            axes.append(_joined(taken))
        return View(tuple(axes))

    def as_transpose(self, base: Sequence[int]) -> tuple[int, ...] | None:
        """The order of the axes of a base of this shape that the view is; None where axes are cut or joined."""
        left = list(enumerate(View.of_shape(base).axes))
        order = []
        for axis in self.axes:
            place = next((k for k, (_, own) in enumerate(left) if own == axis), None)
            if place is None:
                return None
            order.append(left.pop(place)[0])
        return None if left else tuple(order)

    def as_moves(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The view as a reshape of the base to a first shape, then a transpose by an order, then a reshape."""
        factors = list(_joined([factor for axis in self.axes for factor in axis]))
        in_base = sorted(factors, key=lambda factor: -factor[1])
        return tuple(size for size, _ in in_base), tuple(in_base.index(factor) for factor in factors)

    def brings_back(self, base: Sequence[int], shape: Sequence[int]) -> tuple[int, ...] | None:
        """The shape over the base's axes of an operand that is broadcast to this view, of *shape* over its own.

        The operand must be a dense value whose axes of more than one element lie in the base as they do in the view;
        None where an axis of *base* would be broadcast in part, or the order differs.
        """
        full = [factor for axis, size in zip(self.axes, shape, strict=True) if size > 1 for factor in axis]
        if full != sorted(full, key=lambda factor: -factor[1]):
            return None
        sizes = []
        for axis in View.of_shape(base).axes:
            covered = [_overlap(factor, part) for factor in axis for part in full]
            size = math.prod(covered)
            whole = math.prod(extent for extent, _ in axis)
            if size not in (1, whole):
                return None
            sizes.append(size)
        return tuple(sizes) if math.prod(sizes) == math.prod(shape) else None


def _overlap(axis: Factor, part: Factor) -> int:
    """How many steps of a base's *axis* the strides of *part* make: the common range of both, as a factor."""
    low = max(axis[1], part[1])
    high = min(axis[0] * axis[1], part[0] * part[1])
    return high // low if high > low and high % low == 0 else 1
