"""A convolution as stages of Winograd's method, and its weights transformed.

The stages are tensor expressions that mean the same as the convolution, with the matrices' entries chosen by their
indices; their schedule (``schedule.py``) knows them by their tags and takes the sizes of the blocks from their plan.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.codegen.c.winograd.convolution import Convolution
from byoc.codegen.c.winograd.sizes import INPUT, META, OUTPUT, PAD, WEIGHTS, WinogradPlan
from byoc.codegen.c.winograd.transforms import KERNEL, Matrix, transforms
from byoc.codegen.kernel.inline import substitute_axes
from byoc.te import Index, PrimExpr, Tensor, all_of, compute, const, if_then_else, reduce_axis
from byoc.te.expr import INDEX, Reduce
from byoc.te.walk import map_expr


def transformed_weights(weights: np.ndarray, conv: Convolution, plan: WinogradPlan) -> np.ndarray:
    """``G g G^T``, computed in f64 and rounded once: ``f32[panels, points, channels, panel]``, filled up with zeros."""
    order = [k for k in conv.order if k is not None]
    shape = (KERNEL * KERNEL, plan.channels, plan.filters)
    g = np.transpose(weights, order + [k for k in range(weights.ndim) if k not in order]).reshape(shape)
    matrix = np.array([[float(x) for x in row] for row in transforms(plan.outputs).kernel])
    both = np.kron(matrix, matrix)  # of (x, y) and (i, j): one product instead of two
    result = np.zeros((plan.panels, plan.points, plan.channels, plan.panel), np.float32)
    for number, panel in enumerate(result):  # one after another, so that float64 stays in the caches
        part = g[:, :, number * plan.panel : (number + 1) * plan.panel]
        width = part.shape[2]
        product = both @ part.reshape(KERNEL * KERNEL, -1).astype(np.float64)
        panel[:, :, :width] = product.reshape(plan.points, plan.channels, width)
    return result


def weights_tensor(name: str, plan: WinogradPlan) -> Tensor:
    """The placeholder for :func:`transformed_weights`."""
    shape = (plan.panels, plan.points, plan.channels, plan.panel)
    return Tensor(name, shape, "float32", tag=WEIGHTS)


def winograd_stages(conv: Convolution, pad: Tensor | None, weights: Tensor, plan: WinogradPlan) -> list[Tensor]:
    """What stands for the stage of *conv*; *pad* is its image where that needs no buffer of its own."""
    stored = [_input_stage(conv, pad, plan)] if plan.stored else []
    size, outputs = plan.size, plan.outputs
    inverse = transforms(outputs).inverse
    n, y, x, o = conv.stage.axes
    down, across, channel = (reduce_axis(e, k) for e, k in ((size, "py"), (size, "px"), (plan.channels, "c")))
    tile = (n * plan.down + y // outputs) * plan.across + x // outputs
    point = down * size + across
    if stored:
        transformed: PrimExpr = stored[0][point, tile * plan.channels + channel]
    else:
        transformed = _transformed(conv, pad, plan, (n, y // outputs, x // outputs, channel), down, across)
    factor = entry(inverse, y % outputs, down) * entry(inverse, x % outputs, across)
    load = weights[o // plan.panel, point, channel, o % plan.panel]
    total = Reduce("sum", factor * (transformed * load), (down, across, channel))
    body = map_expr(conv.stage.element, lambda e: total if e is conv.reduce else None)
    stage = conv.stage
    return [*stored, Tensor(stage.name, stage.shape, stage.dtype, stage.axes, body, OUTPUT, {META: plan})]


def _input_stage(conv: Convolution, pad: Tensor | None, plan: WinogradPlan) -> Tensor:
    """``B^T d B`` of all tiles: ``[points, tiles * channels + PAD]``."""
    length, room = plan.tiles * plan.channels, plan.stored_tiles * plan.channels

    def element(point: Index, place: Index) -> PrimExpr:
        tile, channel = place // plan.channels, place % plan.channels
        at = (tile // (plan.down * plan.across), tile // plan.across % plan.down, tile % plan.across, channel)
        value = _transformed(conv, pad, plan, at, point // plan.size, point % plan.size)
        return if_then_else(place < length, value, const(0, value.dtype))

    return compute((plan.points, room + PAD), element, f"{conv.image.name}_tiles", INPUT, {META: plan})


def _transformed(
    conv: Convolution, pad: Tensor | None, plan: WinogradPlan, at: Sequence[PrimExpr], down: PrimExpr, across: PrimExpr
) -> PrimExpr:
    """``(B^T d B)[down, across]`` of the tile *at* (image, row, column) and channel."""
    matrix = transforms(plan.outputs).input
    i, j = reduce_axis(plan.size, "ty"), reduce_axis(plan.size, "tx")
    n, row, column, channel = at
    y = row * plan.outputs + i + conv.offsets[0]
    x = column * plan.outputs + j + conv.offsets[1]
    factor = entry(matrix, down, i) * entry(matrix, across, j)
    return Reduce("sum", factor * _pixel(conv.image, pad, (n, y, x, channel)), (i, j))


def _pixel(image: Tensor, pad: Tensor | None, place: Sequence[PrimExpr]) -> PrimExpr:
    """The image at *place*, 0 outside of it: the last tiles reach beyond it."""
    value = image[tuple(place)] if pad is None else substitute_axes(pad.element, pad.axes, tuple(place))
    conditions = []
    for index, extent in zip(place[1:3], image.shape[1:3], strict=True):
        conditions += [index >= 0, index < extent]
    return if_then_else(all_of(*conditions), value, const(0, value.dtype))


def entry(matrix: Matrix, row: PrimExpr, column: PrimExpr) -> PrimExpr:
    """``matrix[row, column]`` as an expression."""
    value: PrimExpr = const(0.0, "float32")
    for i, entries in enumerate(matrix):
        for j, entry in enumerate(entries):
            if entry:
                here = all_of(row.equal(const(i, INDEX)), column.equal(const(j, INDEX)))
                value = if_then_else(here, const(float(entry), "float32"), value)
    return value
