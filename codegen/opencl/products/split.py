"""Sums of products in parts, where a device has more units than there are tiles: each part is a group of its own.

The stage becomes two: the parts' sums, and their sum with the epilogue. A deep convolution over few positions, as at
the end of an image network, has a dozen tiles for a hundred units otherwise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_meta, with_stages
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import own_kernel
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.products.candidates import candidates
from byoc.codegen.opencl.products.shape import BlockProduct, tiled_product
from byoc.codegen.opencl.products.tile import FEWEST_TERMS, MOST_PARTS
from byoc.te import Index, PrimExpr, Tensor, binary, recurrence
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr

FEW_PARTS = 16
Decide = Callable[[Tensor, Sequence[int]], "Choice | None"]
SCHEDULE = "schedule"  # in a stage's ``meta``: the choice that was made for it


def split_sums(program: Program, profile: DeviceProfile, decide: Decide | None = None) -> Program:
    """*program* with the products in parts for which that is cheaper on a device of *profile*.

    *decide* gives the schedule of a product whose terms can be divided into so many parts, or None to leave it to the
    model; the stages say in their ``meta`` what was decided.
    """
    simplify = Simplifier()
    steps = {s for group in program.groups for s in recurrence(group.stages)}  # are one kernel, whatever is in them

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        return [renamed] if stage in steps else _split(renamed, profile, simplify, decide)

    return with_stages(program, change)


def _split(stage: Tensor, profile: DeviceProfile, simplify: Simplifier, decide: Decide | None) -> Sequence[Tensor]:
    p = None if own_kernel(stage) is not None else tiled_product(stage, simplify)
    if p is None:
        return [stage]
    (reduce,) = reduces_in(stage.element)
    if any(not isinstance(d, int) for d in (*stage.shape, *(a.extent for a in reduce.axes))):
        return [stage]
    axis, parts = _longest(reduce), parts_of(stage, p)
    decided = None if decide is None else decide(stage, parts)
    if decided is not None:
        return _as_decided(stage, reduce, axis, decided)
    chosen = next(iter(candidates(p, profile, parts)), None)
    if chosen is None or chosen.parts == 1:
        return [stage]
    return _in_parts(stage, reduce, axis, chosen.parts)


def parts_of(stage: Tensor, p: BlockProduct) -> list[int]:
    """In how many parts the terms of *stage*, which is *p* and whose sizes are known, may be summed."""
    (reduce,) = reduces_in(stage.element)
    extent, terms = int(_longest(reduce).extent), p.sizes()[3]
    return [n for n in range(1, MOST_PARTS + 1) if extent % n == 0 and (n == 1 or terms // n >= FEWEST_TERMS)]


def _longest(reduce: Reduce) -> Index:
    """The axis whose extent is divided."""
    return max(reduce.axes, key=lambda a: int(a.extent))


def _sum_of(sums: Tensor, parts: int, places: Sequence[Index]) -> PrimExpr:
    """The sum of all *parts* at *places*: few are added one by one, so that what reads it stays pointwise."""
    if parts > FEW_PARTS:
        part = Index("part", parts)
        return Reduce("sum", Load(sums, (part, *places)), (part,))
    loads: list[PrimExpr] = [Load(sums, (as_index(k), *places)) for k in range(parts)]
    return functools.reduce(lambda a, b: binary("add", a, b), loads)


def _as_decided(stage: Tensor, reduce: Reduce, axis: Index, decided: Choice) -> Sequence[Tensor]:
    own = dict(decided.parameters)
    parts = int(own.get("parts", 1))
    if parts == 1:
        return [with_meta(stage, SCHEDULE, decided)]
    sums, total = _in_parts(stage, reduce, axis, parts)
    sums.meta[SCHEDULE] = Choice.of(decided.kind, **{**own, "parts": 1})
    return [sums, total]


def _in_parts(stage: Tensor, reduce: Reduce, axis: Index, parts: int) -> tuple[Tensor, Tensor]:
    length = int(axis.extent) // parts
    part, inner = Index("part", parts), Index(axis.name, length)
    places = [Index(a.name, a.extent) for a in stage.axes]
    term = substitute_axes(
        reduce.body, [axis, *stage.axes], [binary("add", binary("mul", part, length), inner), *places]
    )
    inside = tuple(inner if a is axis else a for a in reduce.axes)
    sums = Tensor(
        f"{stage.name}_parts",
        (parts, *stage.shape),
        reduce.dtype,
        (part, *places),
        Reduce(reduce.kind, term, inside),
    )
    total = _sum_of(sums, parts, stage.axes)
    return sums, with_body(stage, map_expr(stage.element, lambda e: total if e is reduce else None))
