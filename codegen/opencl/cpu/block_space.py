"""How the kernels of a group are launched on a processor, as a search space.

In how many work-groups its loops are shared: one for all costs no thread a wake-up, many let a thread that is held up
be overtaken. How wide the vectors are, where no tile has decided that: half of a register's width keeps some processors
at a higher clock. And work-items in place of blocks, in groups of several sizes, which the driver makes vectors of.
Tiles of products and Winograd's blocks are search spaces of C's schedules, which are asked before.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.contraction.tile_space import META as TILE
from byoc.codegen.c.winograd.sizes import META as WINOGRAD
from byoc.codegen.kernel.choice import Choice, SearchSpace
from byoc.codegen.kernel.group_key import group_key
from byoc.codegen.kernel.program import Group
from byoc.codegen.opencl.device.alone import alone
from byoc.codegen.opencl.device.choosing import ELEMENTS, LAUNCH, Ranked, roughly
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.te import Tensor

BLOCK = "block"
SHARES = 4  # work-groups of a block for each unit of a processor: one that is held up does not hold up the others
ONE = 0  # in the place of SHARES: one work-group in all
OTHER_SHARES = (ONE, 1, 2, 8, 16)
FEWEST_LANES = 4
LAUNCH_CYCLES = 50_000.0  # of a kernel that does nothing
CYCLES = 0.5  # that an element takes which is loaded or computed
SMALL_CYCLES = 50_000.0  # up to which one thread may be done before another has woken up
SHARES_PENALTY = 0.06  # for each time that there are twice as many work-groups, or half
NARROW = 1.2  # times what whole vectors take
ITEMS = 1.35  # times what a block takes: work-items, whose loops the driver has to vectorise


@dataclass(frozen=True)
class BlockSearchSpace(SearchSpace):
    """The search space of the kernels of *group*, which fill its *targets*."""

    group: Group | None = None
    targets: tuple[Tensor, ...] = ()


def default_block(profile: DeviceProfile) -> Choice:
    """The model's choice."""
    return Choice.of(BLOCK, lanes=profile.float_lanes, shares=SHARES)


def work_groups(choice: Choice, profile: DeviceProfile) -> int:
    """The work-groups of a block's kernels by *choice*."""
    return max(int(choice["shares"]) * profile.units, 1)


def block_space(group: Group, targets: Sequence[Tensor], profile: DeviceProfile, items: Ranked) -> BlockSearchSpace:
    """The search space of *group*, all of whose sizes are numbers.

    *items* are the schedules of its stage by work-items, where it has one stage.
    """
    decided = any(TILE in s.meta or WINOGRAD in s.meta for s in group.stages)
    work = max(roughly(group.stages, profile) - LAUNCH, 0.0) * ELEMENTS * max(profile.units, 1) * CYCLES
    cost = LAUNCH_CYCLES + (0.0 if decided else work)  # of products the tiles are asked about, with all their time
    ranked = [(cost, default_block(profile))]
    for shares in OTHER_SHARES:
        steps = abs(math.log2(max(shares, 1 / max(profile.units, 1)) / SHARES))
        penalty = SHARES_PENALTY * steps * (0.1 if shares == ONE and work <= SMALL_CYCLES else 1.0)
        ranked.append((cost * (1 + penalty), Choice.of(BLOCK, lanes=profile.float_lanes, shares=shares)))
    if profile.float_lanes >= 2 * FEWEST_LANES and not decided and not group.local:
        ranked.append((cost * NARROW, Choice.of(BLOCK, lanes=profile.float_lanes // 2, shares=SHARES)))
    if items and not decided:
        least = items[0][0]
        ranked += [(cost * ITEMS * one / least, choice) for one, choice in items]
    ranked.sort(key=lambda pair: pair[0])
    return BlockSearchSpace(
        _described(group, targets, profile), tuple(ranked), group.stages[-1], {}, group, (*targets,)
    )


def _described(group: Group, targets: Sequence[Tensor], profile: DeviceProfile) -> str:
    """What the kernels of *group* compute, and how, as one canonical text without names."""
    program = alone(group.stages, targets, "kernel", group.local, scheduled=True)
    (own,) = program.groups
    key = (group_key(own, ()), [t in program.outputs for t in own.stages], [t.tag for t in program.inputs])
    mark = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
    outputs = ", ".join(f"{t.dtype}[{', '.join(map(str, t.shape))}]" for t in targets)
    return f"{profile.kind} blocks -> {outputs} #{mark}"
