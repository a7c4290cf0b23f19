"""The three stages that stand for a convolution done by Winograd's method, and its weights transformed.

The image's tiles are transformed by a kernel of their own, then each of their points is a product of matrices like any
other, computed by tiles, then a kernel transforms the products' tiles back and does what is to be done with the sum.
Source: Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016, section 4.
"""

from __future__ import annotations

import numpy as np

from byoc.codegen.c.winograd.stages import entry
from byoc.codegen.c.winograd.transforms import KERNEL, transforms
from byoc.codegen.kernel.rewrite_stages import with_body, with_meta
from byoc.codegen.opencl.device.kernel_plan import OWN_KERNEL
from byoc.codegen.opencl.winograd.convolution import ImageConvolution
from byoc.codegen.opencl.winograd.kernels import InputTransform, OutputTransform
from byoc.codegen.opencl.winograd.tiles import WinogradTiles, pixel
from byoc.te import Index, PrimExpr, Tensor, compute, reduce_axis
from byoc.te.expr import Reduce
from byoc.te.walk import map_expr


def transformed_weights(weights: np.ndarray, conv: ImageConvolution, plan: WinogradTiles) -> np.ndarray:
    """``G g G^T``, computed in f64 and rounded once: ``f32[points, filters, channels]``."""
    order = [k for k in conv.order if k is not None]
    moved = np.transpose(weights, order + [k for k in range(weights.ndim) if k not in order])
    taps = moved.reshape(KERNEL * KERNEL, plan.channels * plan.filters)
    matrix = np.array([[float(x) for x in row] for row in transforms(plan.outputs).kernel])
    product = np.kron(matrix, matrix) @ taps.astype(np.float64)
    shaped = product.reshape(plan.points, plan.channels, plan.filters)
    return np.asarray(np.swapaxes(shaped, 1, 2), np.float32, order="C")


def winograd_stages(conv: ImageConvolution, weights: Tensor, plan: WinogradTiles) -> list[Tensor]:
    """What stands for the stage of *conv*; *weights* are transformed."""
    tiles = _input_stage(conv, plan)
    products = products_stage(weights, tiles, plan, f"{conv.stage.name}_products")
    return [tiles, products, _output_stage(conv, products, plan)]


def products_stage(weights: Tensor, tiles: Tensor, plan: WinogradTiles, name: str = "products") -> Tensor:
    """The products of all points: ``[points, filters, tiles]``."""
    channel = reduce_axis(plan.channels, "channel")

    def element(point: Index, filter: Index, tile: Index) -> PrimExpr:
        return Reduce("sum", weights[point, filter, channel] * tiles[point, channel, tile], (channel,))

    return compute((plan.points, plan.filters, plan.tiles), element, name)


def _input_stage(conv: ImageConvolution, plan: WinogradTiles) -> Tensor:
    """``B^T d B`` of all tiles: ``[points, channels, tiles]``."""
    matrix, image, m = transforms(plan.outputs).input, conv.image, plan.outputs

    def element(point: Index, channel: Index, tile: Index) -> PrimExpr:
        i, j = reduce_axis(plan.size, "ty"), reduce_axis(plan.size, "tx")
        y = tile // plan.across % plan.down * m + i + plan.offsets[0]
        x = tile % plan.across * m + j + plan.offsets[1]
        factor = entry(matrix, point // plan.size, i) * entry(matrix, point % plan.size, j)
        return Reduce("sum", factor * pixel(image, (tile // (plan.down * plan.across), channel, y, x)), (i, j))

    shape = (plan.points, plan.channels, plan.tiles)
    return compute(shape, element, f"{conv.image.name}_tiles", meta={OWN_KERNEL: InputTransform(plan)})


def _output_stage(conv: ImageConvolution, products: Tensor, plan: WinogradTiles) -> Tensor:
    """``A^T m A`` of all products, with what *conv* does with its sum."""
    inverse, m = transforms(plan.outputs).inverse, plan.outputs
    n, o, y, x = conv.stage.axes
    down, across = reduce_axis(plan.size, "py"), reduce_axis(plan.size, "px")
    tile = (n * plan.down + y // m) * plan.across + x // m
    factor = entry(inverse, y % m, down) * entry(inverse, x % m, across)
    total = Reduce("sum", factor * products[down * plan.size + across, o, tile], (down, across))
    made = with_body(conv.stage, map_expr(conv.stage.element, lambda e: total if e is conv.reduce else None))
    return with_meta(made, OWN_KERNEL, OutputTransform(plan))
