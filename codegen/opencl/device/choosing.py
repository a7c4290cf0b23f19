"""What may be chosen for a kernel: its schedules and work-groups, ranked, as a search space.

Of a kernel with known sizes everything that is legal is ranked, the cost model's own choice first: ``tune/level.py``
says how much of it is tried. Costs are microseconds where a model has them (tiles of products); else they are what the
model's choice is thought to take, times :func:`penalty`, so that what lies further away is tried at higher levels only.
A kernel with free sizes is left to the thresholds.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from byoc.codegen.kernel.choice import Choice, Choices, SearchSpace
from byoc.codegen.kernel.group_key import group_key
from byoc.codegen.opencl.device.alone import alone, tensors_outside
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.statements import DRIVERS, LOCAL_SIZE
from byoc.runtime.opencl.images import ImageSize
from byoc.te import Dimension, Tensor
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

Ranked = list[tuple[float, Choice]]
Make = Callable[[tuple[Range, ...], int], KernelPlan]  # for what sizes, and the work-items of a group

DRIVERS_PENALTY = 0.05  # the driver's own choice of a work-group is tried first of all others
STEP_PENALTY = 0.1  # for each time that a work-group is twice, or half, as large
FACTOR_PENALTY = 1.2  # factors of the range that are no powers of two: beyond the level wide
OTHER_OPTION = 0.15  # for each schedule that the model would rather take
LARGE_GROUP = 256  # work-items, where a device has enough of such groups
FULL = 8  # of them a unit
LEAST_GROUP = 8  # work-items that share one output
ELEMENTS = 5000.0  # that a unit of a device loads or computes in a microsecond, roughly
LAUNCH = 3.0  # microseconds


@dataclass(frozen=True)
class ScheduleOption:
    """A schedule of a stage: *choice* without its work-group, whose kernel *make* makes.

    *when* are the sizes for which the model takes it, None for none; *cost* are its microseconds where a model says
    them; *items* the work-items (of groups that share an output where *shares*), 0 where their number is fixed, and
    *local* those of a group that the model takes; *far* how many times the sizes are twice too large, or too small, for
    the model to take it.
    """

    choice: Choice
    when: tuple[Range, ...] | None
    make: Make
    items: int = 0
    shares: bool = False
    cost: float | None = None
    far: float = 0.0
    local: int = LOCAL_SIZE


def items_of_a_group(items: int, profile: DeviceProfile) -> int:
    """The work-items of a group that the model takes for so many *items*, 0 where a call decides.

    A GPU starts a group at a time: on an H200 16.8 million numbers are copied in 164 microseconds by groups of 64, in
    50 by groups of 256. Where there are few groups, small ones are spread better.
    """
    many = items >= FULL * LARGE_GROUP * profile.units and not profile.is_cpu
    return min(LARGE_GROUP, profile.max_group) if many else LOCAL_SIZE


def local_sizes(extent: int, most: int) -> list[int]:
    """The sizes of work-groups for *extent* work-items: the driver's choice, powers of two, factors of *extent*.

    None is larger than *most*, nor twice as large as the whole; none stands twice.

    >>> local_sizes(12, 64)
    [0, 1, 2, 4, 8, 16, 3, 6, 12]
    """
    powers = [1 << k for k in range(most.bit_length()) if 1 << k <= most and 1 << k < 2 * extent]
    small = [d for d in range(1, math.isqrt(extent) + 1) if extent % d == 0]
    factors = sorted({d for s in small for d in (s, extent // s) if d <= most})
    return list(dict.fromkeys([DRIVERS, *powers, *factors]))


def penalty(local: int, first: int, multiple: int = 1) -> float:
    """What a work-group of *local* is thought to cost beside the model's *first*: a share of the kernel's time.

    Of the *multiple* of work-items that a unit takes together those that a group does not have stand idle.
    """
    if local == first:
        return 0.0
    if local == DRIVERS:
        return DRIVERS_PENALTY
    steps = abs(math.log2(local / first))
    idle = -(-local // multiple) * multiple / local - 1
    if local & (local - 1):
        return FACTOR_PENALTY + STEP_PENALTY * steps / 10 + idle
    return STEP_PENALTY * steps + (STEP_PENALTY / 100 if local < first else 0.0) + idle


def ranked_options(options: Sequence[ScheduleOption], base: float, profile: DeviceProfile) -> Ranked:
    """Every candidate with every work-group, the model's first; nothing where sizes that are free decide.

    *base* are the microseconds of candidates for which no model gives them.
    """
    default = next((o for o in options if o.when is not None), None)
    if default is None or default.when:
        return []
    found: Ranked = []
    for k, option in enumerate([default, *(o for o in options if o is not default)]):
        cost = option.cost
        if cost is None:
            cost = base * (1 + OTHER_OPTION * k) if default.cost is None else max(base, 2 * default.cost)
            cost *= 1 + OTHER_OPTION * option.far
        if not option.items:
            found.append((cost, option.choice))
            continue
        first = option.local
        for local in (
            group_sizes(first, profile.max_group) if option.shares else local_sizes(option.items, profile.max_group)
        ):
            choice = Choice.of(option.choice.kind, **dict(option.choice.parameters), local=local)
            found.append((cost * (1 + penalty(local, first, profile.multiple)), choice))
        if not any(c["local"] == first for _, c in found if c.kind == option.choice.kind):
            found.append((cost, Choice.of(option.choice.kind, **dict(option.choice.parameters), local=first)))
    head = found.index(next(pair for pair in found if _is(pair[1], default)))
    return [found[head], *sorted(found[:head] + found[head + 1 :], key=lambda pair: pair[0])]


def _is(choice: Choice, option: ScheduleOption) -> bool:
    own = dict(choice.parameters)
    return choice.kind == option.choice.kind and own == {
        **dict(option.choice.parameters),
        **({"local": option.local} if option.items else {}),
    }


def group_sizes(first: int, most: int) -> list[int]:
    """The sizes of groups that share an output: powers of two, among them *first*."""
    powers = [1 << k for k in range(most.bit_length()) if LEAST_GROUP <= 1 << k <= most]
    return sorted({*powers, first})


def chosen_option(options: Sequence[ScheduleOption], choice: Choice) -> KernelPlan | None:
    """The kernel that *choice* means; None where none of *options* is that."""
    own = dict(choice.parameters)
    local = own.pop("local", None)
    bare = Choice.of(choice.kind, **own)
    option = next((o for o in options if o.choice == bare), None)
    return None if option is None else option.make((), option.local if local is None else int(local))


def roughly(stages: Sequence[Tensor], profile: DeviceProfile) -> float:
    """Microseconds for *stages* of known sizes, by what they load and compute."""
    total = 0.0
    for stage in stages:
        nodes = list(unique_nodes(stage.element))
        loads = sum(isinstance(n, Load) for n in nodes)
        terms = sum(_count([a.extent for a in n.axes]) for n in nodes if isinstance(n, Reduce))
        total += _count(stage.shape) * (max(terms, 1) * max(loads, 1) + 1)
    return LAUNCH + total / (ELEMENTS * max(profile.units, 1))


def _count(shape: Sequence[Dimension]) -> int:
    return math.prod(d for d in shape if isinstance(d, int))


def is_static(stages: Sequence[Tensor]) -> bool:
    """Whether every size in *stages* is a number."""
    nodes = [n for s in stages for n in unique_nodes(s.element)]
    shapes = [s.shape for s in stages] + [n.tensor.shape for n in nodes if isinstance(n, Load)]
    shapes += [tuple(a.extent for a in n.axes) for n in nodes if isinstance(n, Reduce)]
    return all(isinstance(d, int) for shape in shapes for d in shape)


@dataclass(frozen=True)
class KernelSearchSpace(SearchSpace):
    """The search space of *stages*, of which others read the *targets*; ``stage`` is the last of them.

    *images* are those of the tensors that they read and fill which are images; with *by_texels* they fill whole texels.
    """

    stages: tuple[Tensor, ...] = ()
    targets: tuple[Tensor, ...] = ()
    images: Mapping[Tensor, ImageSize] = field(default_factory=dict)
    by_texels: bool = False


def described(
    stages: Sequence[Tensor], targets: Sequence[Tensor], kind: str, images: Collection[Tensor] = (), how: str = ""
) -> str:
    """What *stages* compute, for a device of *kind*, as one canonical text without names.

    It says which tensors are *images*, all others being buffers, and *how* else the kernels are not those of others.
    """
    program = alone(stages, targets, "kernel")
    (group,) = program.groups
    key = (group_key(group, ()), [t in program.outputs for t in group.stages])
    mark = hashlib.sha256(repr(key).encode()).hexdigest()[:20]
    read = ", ".join(_notation(t, images) for t in tensors_outside(stages))
    filled = ", ".join(_notation(t, images) for t in targets)
    return f"{kind}{how}: {read} -> {filled} #{mark}"


def _notation(tensor: Tensor, images: Collection[Tensor]) -> str:
    return f"{tensor.dtype}[{', '.join(str(d) for d in tensor.shape)}]{' image' if tensor in images else ''}"


@dataclass(frozen=True)
class Chooser:
    """Asks *choices* about kernels for a device of *profile*, of whose tensors some are *images*.

    Without any the model decides.
    """

    profile: DeviceProfile
    choices: Choices | None = None
    images: Mapping[Tensor, ImageSize] = field(default_factory=dict)

    def choose(
        self,
        stages: Sequence[Tensor],
        targets: Sequence[Tensor],
        ranked: Callable[[], Ranked],
        by_texels: bool = False,
    ) -> Choice | None:
        """The choice for the kernels of *stages*; None where nobody is asked: the schedule's own choice is taken.

        *by_texels*: they fill four channels a work-item, of an image or out of images.
        """
        if self.choices is None or not is_static(stages):
            return None
        found = ranked()
        if len(found) < 2:
            return None
        own = {t: self.images[t] for t in (*tensors_outside(stages), *targets) if t in self.images}
        text = described(stages, targets, self.profile.kind, own, " by texels" if by_texels else "")
        space = KernelSearchSpace(text, tuple(found), stages[-1], {}, tuple(stages), tuple(targets), own, by_texels)
        return self.choices.choose(space) or space.expected
