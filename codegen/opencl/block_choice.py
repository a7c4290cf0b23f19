"""How a group's kernels for a processor are launched: by whoever is asked, else by the model."""

from __future__ import annotations

from collections.abc import Collection

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.program import Group
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.cpu.block_space import block_space, default_block
from byoc.codegen.opencl.device.choosing import Chooser, Ranked, is_static
from byoc.codegen.opencl.schedule import stage_space
from byoc.te import Tensor, recurrence


def chosen_block(group: Group, outside: Collection[Tensor], chooser: Chooser) -> Choice:
    """A choice of ``block_space`` for *group*, whose stages *outside* others read.

    The model's where sizes are free, and for recurrences, whose steps are one work-group's.
    """
    profile = chooser.profile
    expected = default_block(profile)
    if chooser.choices is None or not is_static(group.stages) or recurrence(group.stages):
        return expected
    items: Ranked = []
    if len(group.stages) == 1:
        items = stage_space(group.stages[0], Simplifier(), profile)
    space = block_space(group, [s for s in group.stages if s in outside], profile, items)
    found = chooser.choices.choose(space)
    return found if found is not None and space.legal(found) else expected
