"""A stage as a 3 x 3 convolution of an image, whatever its operator is called: by the places of its loads.

One sum of ``image[n, y + ky, x + kx, c] * weights[...]`` over 3 x 3 places and all channels, channels innermost in the
image and in the result, weights constant. What is done with the sum is free, and so may the batch be.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from byoc.codegen.c.winograd.transforms import KERNEL
from byoc.codegen.kernel.simplify import Simplifier, same_size
from byoc.te import Index, PrimExpr, Tensor, compute
from byoc.te.evaluate import evaluate
from byoc.te.expr import Binary, Const, Reduce, Select
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes


@dataclass(frozen=True)
class Convolution:
    """*stage* over *reduce*: ``sum(data * weights)``.

    ``offsets`` is the row and the column of *image* that tap (0, 0) of the output (0, 0) reads. ``order`` has for each
    of (ky, kx, c, o) its dimension of the weights, None where that has one element.
    """

    stage: Tensor
    reduce: Reduce
    image: Tensor
    offsets: tuple[int, int]
    weights: Tensor
    order: tuple[int | None, ...]

    @property
    def channels(self) -> int:
        return int(self.image.shape[-1])

    @property
    def inside(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """The first row that is no padding and the one after the last, counted from the first tap; and columns."""
        rows, columns = inner_part(self.image)
        return (
            (rows[0] - self.offsets[0], rows[1] - self.offsets[0]),
            (columns[0] - self.offsets[1], columns[1] - self.offsets[1]),
        )


def convolution(stage: Tensor, constants: Collection[Tensor], simplify: Simplifier) -> Convolution | None:
    """*stage* as a convolution, or None."""
    if len(stage.axes) != 4 or stage.dtype != "float32" or not _known(stage.shape[1:]):
        return None
    reduce = _single_sum(stage.body)
    if reduce is None or not isinstance(reduce.body, Binary) or reduce.body.op != "mul":
        return None
    loads = reduce.body.left, reduce.body.right
    for data, weights in (loads, loads[::-1]):
        if isinstance(data, Load) and isinstance(weights, Load) and weights.tensor in constants:
            found = _places(stage, reduce, data, weights, simplify)
            if found is not None:
                return found
    return None


def _known(shape: tuple[object, ...]) -> bool:
    return all(isinstance(d, int) and d > 0 for d in shape)


def _single_sum(body: PrimExpr | None) -> Reduce | None:
    found = [n for n in unique_nodes(body) if isinstance(n, Reduce)] if body is not None else []
    if len(found) != 1 or found[0].kind != "sum" or found[0].dtype != "float32" or len(found[0].axes) != 3:
        return None
    return found[0]


def _places(stage: Tensor, reduce: Reduce, data: Load, weights: Load, simplify: Simplifier) -> Convolution | None:
    image = data.tensor
    if len(data.indices) != 4 or not _known(image.shape[1:]) or not same_size(image.shape[0], stage.shape[0]):
        return None
    n, y, x, o = stage.axes
    channel = next((a for a in reduce.axes if is_along(data.indices[3], a, simplify)), None)
    taps = [a for a in reduce.axes if a is not channel]
    if channel is None or any(a.extent != KERNEL for a in taps) or channel.extent != image.shape[3]:
        return None
    if not is_along(data.indices[0], n, simplify):
        return None
    for down, across in (taps, taps[::-1]):
        top, left = (constant_offset(data.indices[k], a, tap, simplify) for k, a, tap in ((1, y, down), (2, x, across)))
        order = weights_order(weights, (down, across, channel, o), simplify)
        if top is not None and left is not None and order is not None:
            return Convolution(stage, reduce, image, (top, left), weights.tensor, order)
    return None


def is_along(index: PrimExpr, axis: Index, simplify: Simplifier) -> bool:
    """Whether *index* is the position along *axis*."""
    return simplify.polynomial(index).key() == simplify.polynomial(axis).key()


def constant_offset(index: PrimExpr, place: Index, tap: Index, simplify: Simplifier) -> int | None:
    """The constant k of ``place + tap + k``, where *index* is that."""
    rest = simplify.polynomial(index).add(simplify.polynomial(place), -1).add(simplify.polynomial(tap), -1)
    return None if rest.terms else rest.constant


def weights_order(weights: Load, axes: tuple[Index, ...], simplify: Simplifier) -> tuple[int | None, ...] | None:
    """The dimension of *weights* along which each of *axes* moves; None where they are no permutation."""
    if len(weights.indices) != 4 or not _known(weights.tensor.shape):
        return None
    order: list[int | None] = []
    for axis in axes:
        found = [k for k, i in enumerate(weights.indices) if is_along(i, axis, simplify) and axis.extent != 1]
        if len(found) > 1 or (not found and axis.extent != 1):
            return None
        order.append(found[0] if found else None)
    rest = [d for k, d in enumerate(weights.tensor.shape) if k not in order]
    extents = all(k is None or weights.tensor.shape[k] == a.extent for k, a in zip(order, axes, strict=True))
    return tuple(order) if extents and all(d == 1 for d in rest) else None


def is_padded(image: Tensor) -> bool:
    """Whether *image* is a copy with zeros above, below, left or right of something that can be read in its place."""
    if image.tag != "pad" or not isinstance(image.body, Select) or len(image.axes) != 4 or not _known(image.shape[1:]):
        return False
    cond, value, other = image.body.cond, image.body.then, image.body.otherwise
    n, _, _, channel = image.axes
    return (
        isinstance(value, Load)
        and isinstance(other, Const)
        and other.value == 0
        and len(value.indices) == 4
        and value.indices[0] is n
        and value.indices[3] is channel
        and not any(node in (n, channel) for node in unique_nodes(cond))
    )


def inner_part(image: Tensor) -> tuple[tuple[int, int], tuple[int, int]]:
    """The first row of *image* that is no padding and the one after the last, and the same of columns."""
    down, across = (int(d) for d in image.shape[1:3])
    if not is_padded(image):
        return (0, down), (0, across)
    assert isinstance(image.body, Select)
    _, y, x, _ = image.axes
    cond = image.body.cond

    def element(row: Index, column: Index) -> PrimExpr:
        return map_expr(cond, lambda e: row if e is y else column if e is x else None)

    inside = evaluate(compute((down, across), element), {})
    rows, columns = (np.flatnonzero(inside.any(axis=k)) for k in (1, 0))
    if not rows.size:
        return (0, 0), (0, 0)
    return (int(rows[0]), int(rows[-1]) + 1), (int(columns[0]), int(columns[-1]) + 1)
