"""The steps of a recurrence as one kernel: a work-group that goes through them, its work-items a stage together.

Nothing outside of a work-group can wait for a step's results without another launch, and how many steps there are may
be known in a call alone. What a step stores the next one reads: the device's memory is the same for all of a group
behind a barrier.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.collapse import collapse_nest, nest_at_step
from byoc.codegen.kernel.loops import For, Stmt, Store
from byoc.codegen.kernel.reductions import without_reductions
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, numbered
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.statements import GlobalBarrier, SharedLoop
from byoc.te import Index, Tensor

STEPS = "steps"
MOST_ITEMS = 256  # of the group: each has a row of a product to itself, and more wait longer at a barrier


def step_kernel(ring: Sequence[Tensor], simplify: Simplifier, profile: DeviceProfile) -> KernelPlan:
    """The kernel that fills all stages of *ring*, in the order of one step."""
    step = Index("step", ring[0].shape[0])
    body: list[Stmt] = []
    for stage in ring:
        nest = collapse_nest(nest_at_step(stage, step), simplify)
        item, axes = numbered("item", nest.axes, simplify)
        statements, value = without_reductions(nest.value)
        store = Store(nest.stage, nest.indices, value)
        body += [SharedLoop(item, item.extent, [*axes, *statements, store]), GlobalBarrier()]
    items = 1 << (min(MOST_ITEMS, profile.max_group).bit_length() - 1)
    return KernelPlan(STEPS, [For(step, ring[0].shape[0], body)], as_index(1), groups=True, local=items)
