"""Convolutions of a Program for a GPU done by Winograd's method where that takes less time and the error is allowed.

It has 2.25 (F(2, 3)) or 4 (F(4, 3)) times fewer multiplications, and moves the image and the results some five to ten
times through memory: worth it for many channels over many positions. One image of a small network is over before two
more kernels have started.
"""

from __future__ import annotations

from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.codegen.c.winograd.rewrite import has_transform
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.rates import FITTED
from byoc.codegen.opencl.products.candidates import candidates, format_of
from byoc.codegen.opencl.products.shape import tiled_product
from byoc.codegen.opencl.products.split import parts_of
from byoc.codegen.opencl.products.weights import ProgramWeights
from byoc.codegen.opencl.winograd.convolution import ImageConvolution, image_convolution
from byoc.codegen.opencl.winograd.stages import products_stage, transformed_weights, winograd_stages
from byoc.codegen.opencl.winograd.tiles import WinogradTiles
from byoc.te import Tensor, placeholder, recurrence

# fitted on an H100 to 21 convolutions of 1 to 32 images, 64 to 320 channels (python -m benchmarks.opencl.winograd): off
# by 1.13 in the mean; what is chosen then is within 1.04 of the fastest, 1.004 in the mean
TRANSFORM = 8.0  # microseconds of a transform of few bytes, with the start of its kernel
MOVED = 2.2e6  # bytes that a transform moves in a microsecond
GAIN = 0.95  # of the time of the sum of products, at most: what is left must be worth the memory
MOST_BETWEEN = 512 << 20  # bytes of a tensor between the stages


def use_winograd(program: Program, profile: DeviceProfile, allowed: WinogradOptions) -> Program:
    """*program* with convolutions done by it, as is *allowed*, where the model of the device says that it is faster."""
    if not allowed.outputs or profile.is_cpu:
        return program
    weights, simplify = ProgramWeights(program), Simplifier()
    steps = {s for group in program.groups for s in recurrence(group.stages)}

    def change(stage: Tensor, renamed: Tensor) -> list[Tensor]:
        conv = None if stage in steps else image_convolution(renamed, weights.arrays, simplify)
        plan = None if conv is None else chosen_tiles(conv, profile, allowed)
        if conv is None or plan is None or not has_transform(weights.arrays[conv.weights].numpy()):
            return [renamed]
        name = f"{weights.names[conv.weights]}_winograd_{plan.outputs}"
        array = weights.arrays[conv.weights].numpy()
        made = weights.made(name, conv.weights, lambda: transformed_weights(array, conv, plan))
        return winograd_stages(conv, made, plan)

    return weights.of(with_stages(program, change))


def chosen_tiles(conv: ImageConvolution, profile: DeviceProfile, allowed: WinogradOptions) -> WinogradTiles | None:
    """The tiles of the least time for *conv*; None where the sum of its products as such takes less."""
    direct = _tiled_cost(conv.stage, profile)
    if direct is None:
        return None
    plans = [WinogradTiles.of(conv, m) for m in allowed.outputs]
    costs = [(cost, plan) for plan in plans if (cost := winograd_cost(plan, profile)) is not None]
    best = min(costs, key=lambda pair: pair[0], default=None)
    return best[1] if best is not None and (allowed.forced or best[0] < GAIN * direct) else None


def winograd_cost(plan: WinogradTiles, profile: DeviceProfile) -> float | None:
    """The microseconds of the three kernels; None where what lies between them is too large."""
    if plan.largest > MOST_BETWEEN:
        return None
    products = _tiled_cost(_products_alone(plan), profile)
    rates = profile.rates or FITTED
    if products is None:
        return None
    return products + 2 * TRANSFORM * rates.launching + plan.moved / MOVED * rates.moving


def _tiled_cost(stage: Tensor, profile: DeviceProfile) -> float | None:
    """The microseconds of a product by tiles; None for what is none, and for one of matrix units."""
    p = tiled_product(stage, Simplifier())
    if p is None or format_of(p, profile) is not None:
        return None
    found = candidates(p, profile, parts_of(stage, p))
    return found[0].cost if found else None


def _products_alone(plan: WinogradTiles) -> Tensor:
    """The stage of the products, over placeholders."""
    weights = placeholder((plan.points, plan.filters, plan.channels), "float32", "weights")
    tiles = placeholder((plan.points, plan.channels, plan.tiles), "float32", "tiles")
    return products_stage(weights, tiles, plan)
