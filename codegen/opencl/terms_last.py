"""Operands of matrix units with their terms side by side: a chunk of them is one load then, or a copy to local memory.

The weights of a convolution have the positions of its window last; a step goes over channels. Constants are turned
when they are compiled. Another operand is turned where the model takes that to pay: by the stage that computes it, when
only the product reads that, else by one of its own; ``elements`` has the kernels of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.rewrite_stages import with_body, with_stages
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.opencl.device.choosing import is_static
from byoc.codegen.opencl.device.kernel_plan import own_kernel
from byoc.codegen.opencl.device.profile import DeviceProfile
from byoc.codegen.opencl.device.rates import FITTED
from byoc.codegen.opencl.elements.sectors import has_sectors
from byoc.codegen.opencl.products.candidates import candidates, format_of
from byoc.codegen.opencl.products.matrix_terms import SINGLE, Terms
from byoc.codegen.opencl.products.shape import tiled_product
from byoc.codegen.opencl.products.split import parts_of
from byoc.codegen.opencl.products.tile import copy_cost
from byoc.codegen.opencl.products.weights import ProgramWeights
from byoc.codegen.opencl.stage_uses import StageUses
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes

Part = TypeVar("Part")
StandIn = Callable[[Tensor, int], "Tensor | None"]  # for a tensor, an axis of it moved to the end; None: it stays


def terms_last(program: Program, profile: DeviceProfile) -> Program:
    """*program* over such operands, where a product of it is one of matrix units on a device of *profile*."""
    if not profile.matrix_units:
        return program
    return _TermsLast(_filled_in_place(program, profile), profile).rewritten()


def _filled_in_place(program: Program, profile: DeviceProfile) -> Program:
    """*program* whose stages that one product alone reads fill their memory as that product takes it."""
    of, axes = _TermsLast(program, profile), dict[Tensor, int]()
    for stage in of.uses.readers:
        axes.update((tensor, axis) for tensor, axis in of.worth(stage) if of.may_fill(tensor))
    made: dict[Tensor, int] = {}

    def change(stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        if stage in axes:
            renamed = _with_axis_last(renamed, axes[stage])
            made[renamed] = axes[stage]
            return [renamed]
        reads = any(tensor in made for tensor in loaded_tensors(renamed.element))
        return [with_body(renamed, map_expr(renamed.element, leaf)) if reads else renamed]

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, Load) and expr.tensor in made:
            return expr.of(expr.tensor, _last(expr.indices, made[expr.tensor]))
        return None

    return with_stages(program, change) if axes else program


class _TermsLast:
    """The operands of products in one program."""

    def __init__(self, program: Program, profile: DeviceProfile):
        self._program, self._profile = program, profile
        self._weights, self._simplify = ProgramWeights(program), Simplifier()
        self._copies: dict[tuple[Tensor, int], Tensor] = {}
        self.uses = StageUses(program)

    def rewritten(self) -> Program:
        """The program over constants and copies."""
        return self._weights.of(with_stages(self._program, self._change))

    def may_fill(self, tensor: Tensor) -> bool:
        """Whether *tensor* is a stage whose elements nobody but one product reads, each computed for itself."""
        if not self.uses.has_one_reader(tensor):
            return False
        return not isinstance(tensor.element, Load) and not reduces_in(tensor.element)

    def worth(self, stage: Tensor) -> list[tuple[Tensor, int]]:
        """The tensors that *stage* loads, each with the axis that goes last, where the model takes that to pay."""
        inner = None if stage in self.uses.fixed or not is_static([stage]) else self._inner(stage)
        if inner is None:
            return []
        found: dict[tuple[Tensor, int], Tensor] = {}

        def constant(tensor: Tensor, axis: int) -> Tensor | None:
            return _like(tensor, axis) if tensor in self._weights else None

        def all_of_them(tensor: Tensor, axis: int) -> Tensor | None:
            if tensor in self._weights or not has_sectors(tensor.shape[axis], tensor.dtype):
                return constant(tensor, axis)
            return found.setdefault((tensor, axis), _like(tensor, axis))

        turned = _turned(stage, inner, all_of_them)
        if not found:
            return []
        rates = self._profile.rates or FITTED
        new = [t for t, axis in found if (t, axis) not in self._copies and not self.may_fill(t)]
        cost = self._cost(turned) + sum(copy_cost(t.shape, t.dtype, rates) for t in new)
        return list(found) if cost < self._cost(_turned(stage, inner, constant)) else []

    def _cost(self, stage: Tensor) -> float:
        """The microseconds of *stage*, which is a product, by the cheapest tile."""
        p = tiled_product(stage, self._simplify)
        assert p is not None
        return min((c.cost for c in candidates(p, self._profile, parts_of(stage, p))), default=math.inf)

    def _inner(self, stage: Tensor) -> Index | None:
        """The axis along which steps go over the terms of *stage*; None where it is no product of matrix units."""
        p = None if own_kernel(stage) is not None else tiled_product(stage, self._simplify)
        format = None if p is None else format_of(p, self._profile)
        if p is None or format is None:
            return None
        terms = Terms.of(p.reduce.axes, format, format.chunk, self._simplify)
        return None if terms.kind == SINGLE else terms.inner

    def _change(self, stage: Tensor, renamed: Tensor) -> Sequence[Tensor]:
        inner = self._inner(stage)
        if inner is None:
            return [renamed]
        wanted = [] if stage in self.uses.fixed else self.worth(renamed)
        copies = [pair for pair in wanted if pair not in self._copies]
        for tensor, axis in copies:
            self._copies[tensor, axis] = _copy(tensor, axis)

        def stand_in(tensor: Tensor, axis: int) -> Tensor | None:
            return self._copies[tensor, axis] if (tensor, axis) in wanted else self._constant(tensor, axis)

        return [*(self._copies[pair] for pair in copies), _turned(renamed, inner, stand_in)]

    def _constant(self, tensor: Tensor, axis: int) -> Tensor | None:
        """The constant *tensor* with *axis* last; None for what is no constant."""
        if tensor not in self._weights:
            return None
        name = f"{self._weights.names[tensor]}_axis_{axis}_last"
        return self._weights.made(name, tensor, lambda: np.moveaxis(self._weights.arrays[tensor].numpy(), axis, -1))


def _turned(stage: Tensor, inner: Index, stand_in: StandIn) -> Tensor:
    """*stage* over tensors whose last axis is the one that *inner* alone is the index of."""

    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if not isinstance(expr, Load) or expr.is_word:
            return None
        at = [k for k, i in enumerate(expr.indices) if i is inner]
        behind = expr.tensor.shape[at[0] + 1 :] if len(at) == 1 else ()
        if all(extent == 1 for extent in behind) or _occurs(expr, inner) != 1:
            return None
        other = stand_in(expr.tensor, at[0])
        return None if other is None else expr.of(other, _last(expr.indices, at[0]))

    return with_body(stage, map_expr(stage.element, leaf))


def _last(parts: Sequence[Part], axis: int) -> tuple[Part, ...]:
    """*parts*, one for each axis, with that of *axis* at the end."""
    return (*parts[:axis], *parts[axis + 1 :], parts[axis])


def _like(tensor: Tensor, axis: int) -> Tensor:
    """Memory like that of *tensor*, with *axis* last."""
    return placeholder(_last(tensor.shape, axis), tensor.dtype, tensor.name)


def _copy(source: Tensor, axis: int) -> Tensor:
    """A stage with the elements of *source*, *axis* moved to the end."""
    axes = tuple(Index(f"i{k}", extent) for k, extent in enumerate(source.shape))
    same = Tensor(f"{source.name}_turned", source.shape, source.dtype, axes, Load(source, axes))
    return _with_axis_last(same, axis)


def _with_axis_last(stage: Tensor, axis: int) -> Tensor:
    """*stage* with *axis* moved to the end."""
    shape, axes = _last(stage.shape, axis), _last(stage.axes, axis)
    return Tensor(stage.name, shape, stage.dtype, axes, stage.body, stage.tag, stage.meta)


def _occurs(load: Load, inner: Index) -> int:
    """In how many indices of *load* the axis is."""
    return sum(any(n is inner for n in unique_nodes(i)) for i in load.indices)
