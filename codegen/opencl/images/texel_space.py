"""What may be chosen for a kernel that fills whole texels: how many a work-item, and the work-group.

The model takes one texel a work-item. Several share what they read, and leave fewer work-items; which is better is
found out by trials. The tiles are MNN's for convolutions (``ConvBufExecution.cpp``: c4h1w1 to c8h1w4), and the same of
rows for matrices, which have no other positions. None of them changes what is an image.
"""

from __future__ import annotations

import math

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.choosing import Ranked, ScheduleOption, chosen_option, ranked_options, roughly
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.statements import LOCAL_SIZE
from byoc.codegen.opencl.images.coordinates import ImageTensors, static_four
from byoc.codegen.opencl.images.texel_kernel import SCHEDULE, SEVERAL, TexelTile, texel_axes, texel_kernel
from byoc.runtime.opencl.images import CHANNELS
from byoc.te import Tensor
from byoc.te.expr import Reduce
from byoc.te.walk import unique_nodes

ONE = TexelTile()
TILES = (
    TexelTile(1, 1, 4),
    TexelTile(1, 4, 1),
    TexelTile(1, 1, 2),
    TexelTile(1, 2, 1),
    TexelTile(2, 1, 4),
    TexelTile(2, 4, 1),
    TexelTile(2, 2, 1),
)


def texel_tiles(stage: Tensor) -> list[TexelTile]:
    """The tiles that *stage* has room for; without a reduction nothing is shared but by neighbouring columns."""
    _, rows, columns = texel_axes(stage)
    most = TexelTile(
        -(-static_four(stage)[1] // CHANNELS), *(1 if a is None else int(a.extent) for a in (rows, columns))
    )
    fitting = [t for t in TILES if t.blocks <= most.blocks and t.down <= most.down and t.across <= most.across]
    if not any(isinstance(n, Reduce) for n in unique_nodes(stage.element)):
        fitting = [t for t in fitting if t.blocks == t.down == 1]
    return [ONE, *fitting]


def texel_space(stage: Tensor, images: ImageTensors, simplify: Simplifier, profile: DeviceProfile) -> Ranked:
    """Every tile of *stage* with every work-group, the model's first."""
    options = _options(stage, images, simplify, profile)
    return ranked_options(options, roughly([stage], profile), profile)


def texel_plan(
    stage: Tensor, images: ImageTensors, simplify: Simplifier, profile: DeviceProfile, choice: Choice | None
) -> KernelPlan:
    """The kernel that fills *stage* by *choice*, one of :func:`texel_space`; the model's without any."""
    found = None if choice is None else chosen_option(_options(stage, images, simplify, profile), choice)
    return found or texel_kernel(stage, images, simplify)


def _options(stage: Tensor, images: ImageTensors, simplify: Simplifier, profile: DeviceProfile) -> list[ScheduleOption]:
    """A tile that leaves units without a group, or computes much beyond the tensor's end, is further away."""
    whole = _items(stage, ONE)
    found: list[ScheduleOption] = []
    for tile in texel_tiles(stage):
        items = _items(stage, tile)

        def make(when: tuple[Range, ...], local: int, tile: TexelTile = tile) -> KernelPlan:
            return texel_kernel(stage, images, simplify, tile, local)

        idle = math.log2(max(LOCAL_SIZE * profile.units / items, 1.0))
        wasted = math.log2(items * tile.texels / whole)
        far = 0.0 if tile == ONE else idle + wasted
        found.append(ScheduleOption(_choice(tile), None if found else (), make, items, far=far))
    return found


def _items(stage: Tensor, tile: TexelTile) -> int:
    """The work-items that fill *stage*."""
    sizes = dict(zip(texel_axes(stage), (CHANNELS * tile.blocks, tile.down, tile.across), strict=True))
    return math.prod(-(-int(a.extent) // sizes.get(a, 1)) for a in stage.axes)


def _choice(tile: TexelTile) -> Choice:
    if tile == ONE:
        return Choice.of(SCHEDULE)
    return Choice.of(SEVERAL, channels=CHANNELS * tile.blocks, down=tile.down, across=tile.across)
