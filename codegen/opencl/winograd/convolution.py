"""A stage as a 3 x 3 convolution of an image with its channels before its rows, whatever its operator is called.

One sum of ``image[n, c, y + ky + k, x + kx + l] * weights[...]`` over 3 x 3 places and all channels, 0 outside of the
image, weights constant. What is done with the sum is free. Requires that padding is read through and sizes are known.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.codegen.c.winograd.convolution import constant_offset, is_along, weights_order
from byoc.codegen.c.winograd.transforms import KERNEL
from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.products.shape import factors_of, guarded
from byoc.te import Index, PrimExpr, Tensor, all_of, compute
from byoc.te.evaluate import evaluate
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes


@dataclass(frozen=True)
class ImageConvolution:
    """*stage*, [batch, filters, height, width], over *reduce*: the sum of the image times the weights.

    ``offsets`` is the row and the column of *image*, [batch, channels, rows, columns], that tap (0, 0) of the output
    (0, 0) reads. ``order`` has for each of (ky, kx, c, o) its dimension of the weights, None where it has one element.
    """

    stage: Tensor
    reduce: Reduce
    image: Tensor
    offsets: tuple[int, int]
    weights: Tensor
    order: tuple[int | None, ...]


def image_convolution(stage: Tensor, constants: Collection[Tensor], simplify: Simplifier) -> ImageConvolution | None:
    """*stage* as a convolution, or None."""
    if len(stage.axes) != 4 or stage.dtype != "float32" or not _known(stage.shape):
        return None
    found = reduces_in(stage.element)
    if len(found) != 1 or found[0].kind != "sum" or found[0].dtype != "float32" or len(found[0].axes) != 3:
        return None
    factors = factors_of(found[0].body)
    for data, weights in () if factors is None else (factors, factors[::-1]):
        if isinstance(weights, Load) and weights.tensor in constants:
            conv = _places(stage, found[0], data, weights, simplify)
            if conv is not None:
                return conv
    return None


def _known(shape: Sequence[object]) -> bool:
    return all(isinstance(d, int) and d > 0 for d in shape)


def _places(
    stage: Tensor, reduce: Reduce, data: PrimExpr, weights: Load, simplify: Simplifier
) -> ImageConvolution | None:
    guards, load = guarded(data)
    if not isinstance(load, Load) or load.is_word or len(load.indices) != 4 or not _known(load.tensor.shape):
        return None
    n, o, y, x = stage.axes
    image = load.tensor
    channel = next((a for a in reduce.axes if is_along(load.indices[1], a, simplify)), None)
    taps = [a for a in reduce.axes if a is not channel]
    if channel is None or channel.extent != image.shape[1] or any(a.extent != KERNEL for a in taps):
        return None
    if image.shape[0] != stage.shape[0] or not (n.extent == 1 or is_along(load.indices[0], n, simplify)):
        return None
    for down, across in (taps, taps[::-1]):
        places = ((2, y, down), (3, x, across))
        top, left = (constant_offset(load.indices[k], a, tap, simplify) for k, a, tap in places)
        order = weights_order(weights, (down, across, channel, o), simplify)
        if top is not None and left is not None and order is not None:
            if _guards_the_image(guards, (y, x, down, across), image, (top, left)):
                return ImageConvolution(stage, reduce, image, (top, left), weights.tensor, order)
    return None


def _guards_the_image(
    guards: Sequence[PrimExpr], axes: tuple[Index, Index, Index, Index], image: Tensor, offsets: tuple[int, int]
) -> bool:
    """Whether all *guards* hold exactly where the place that is read is inside of *image*."""
    if any(isinstance(n, Index) and n not in axes for g in guards for n in unique_nodes(g)):
        return False
    if any(isinstance(n, Load) for g in guards for n in unique_nodes(g)):
        return False
    extents = [int(a.extent) for a in axes]
    inside = []
    for k in (0, 1):
        places = np.arange(extents[k])[:, None] + np.arange(KERNEL) + offsets[k]
        inside.append((places >= 0) & (places < int(image.shape[k + 2])))
    expected = inside[0][:, None, :, None] & inside[1][None, :, None, :]
    if not guards:
        return bool(expected.all())
    cond = all_of(*guards)

    def element(*places: Index) -> PrimExpr:
        new = dict(zip(axes, places, strict=True))
        return map_expr(cond, lambda e: new.get(e) if isinstance(e, Index) else None)

    return bool(np.array_equal(evaluate(compute(tuple(extents), element), {}), expected))
