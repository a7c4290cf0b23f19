"""Products that differ only in their constants, as one with an axis more: its weights lie one behind another.

The queries, keys and values of an attention are three products of the same rows, each with too few tiles for a device;
together they read the rows once and are one launch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from byoc.codegen.kernel.attention import attentions
from byoc.codegen.kernel.collapse import collapse_axes
from byoc.codegen.kernel.group_key import group_key
from byoc.codegen.kernel.program import Group, Program, group_of_stages
from byoc.codegen.kernel.rewrite_stages import with_body
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.group_fusion import views
from byoc.codegen.opencl.products.shape import block_product
from byoc.codegen.opencl.products.tile import is_worth_tiles
from byoc.codegen.opencl.products.weights import ProgramWeights
from byoc.te import Index, Tensor, recurrence
from byoc.te.expr import PrimExpr
from byoc.te.tensor import Load
from byoc.te.walk import checks_of, loaded_tensors, map_expr


def fuse_parallel_products(program: Program) -> Program:
    """*program* with each run of such products as one stage, where nobody else asks for the memory of one of them."""
    if any(recurrence(group.stages) for group in program.groups):
        return program
    return _Together(program).run()


class _Together:
    def __init__(self, program: Program):
        self.program, self.simplify = program, Simplifier()
        self.weights = ProgramWeights(program)

    def run(self) -> Program:
        together = {members[0]: members for members in self._runs()}
        return self._with(together) if together else self.program

    def _runs(self) -> Iterator[tuple[Tensor, ...]]:
        """The stages that go together, each run in the order of the program."""
        apart = self._apart()
        by_key: dict[object, list[Tensor]] = {}
        for stage in (s for g in self.program.groups for s in g.stages):
            key = None if stage in apart else self._key(stage)
            if key is not None:
                by_key.setdefault(key, []).append(stage)
        yield from (tuple(found) for found in by_key.values() if len(found) > 1)

    def _apart(self) -> set[Tensor]:
        """The stages that have memory of their own for a reason: results, and what lies there as it is, seen otherwise.

        An attention reads whatever place its queries, keys and values have.
        """
        inside = {s for a in attentions(self.program) for s in a.stages}
        seen = {t for view, t in views(self.program).items() if view not in inside}
        return {*self.program.outputs, *seen}

    def _key(self, stage: Tensor) -> object | None:
        """What is equal for stages that go together; None for one that is no product of a constant worth tiles."""
        if 0 in stage.shape or checks_of([stage.element]):
            return None
        product = block_product(collapse_axes(stage, self.simplify), self.simplify)
        if product is None or product.batch or not is_worth_tiles(product.sizes()):
            return None
        read = loaded_tensors(stage.element)
        weights = loaded_tensors(product.right.value)
        if not weights or any(t not in self.weights for t in weights):
            return None
        nameless = Tensor("product", stage.shape, stage.dtype, stage.axes, stage.body, stage.tag, stage.meta)
        same = tuple(id(t) for t in read if t not in self.weights)
        return same, group_key(Group("", (), (nameless,)), self.weights.arrays)

    def _merged(self, members: Sequence[Tensor]) -> Tensor:
        """One stage for *members*, which are its planes along a new first axis."""
        first, which = members[0], Index("which", len(members))
        columns = zip(*([t for t in loaded_tensors(s.element) if t in self.weights] for s in members), strict=True)
        stacked = {own[0]: self._stacked(own) for own in columns if any(t is not own[0] for t in own)}

        def leaf(expr: PrimExpr) -> PrimExpr | None:
            if not isinstance(expr, Load) or expr.tensor not in stacked:
                return None
            return expr.of(stacked[expr.tensor], [which, *(map_expr(i, leaf) for i in expr.indices)])

        shape, axes = (len(members), *first.shape), (which, *first.axes)
        return Tensor(first.name, shape, first.dtype, axes, map_expr(first.element, leaf), first.tag, first.meta)

    def _stacked(self, constants: Sequence[Tensor]) -> Tensor:
        """A constant whose planes are *constants*."""
        name = "_and_".join(self.weights.names[t] for t in constants)
        arrays = self.weights.arrays
        return self.weights.made(name, constants[0], lambda: np.stack([arrays[t].numpy() for t in constants]))

    def _with(self, together: Mapping[Tensor, tuple[Tensor, ...]]) -> Program:
        """The program with a stage for those that come *together*, by the first of them."""
        places = {s: (first, k) for first, members in together.items() for k, s in enumerate(members)}
        new: dict[Tensor, Tensor] = {}

        def leaf(expr: PrimExpr) -> PrimExpr | None:
            if not isinstance(expr, Load):
                return None
            first, k = places.get(expr.tensor, (expr.tensor, None))
            indices = [map_expr(i, leaf) for i in expr.indices]
            if k is not None:
                return expr.of(new[first], [as_index(k), *indices])
            return expr.of(new.get(first, first), indices)

        groups = []
        for group in self.program.groups:
            stages: list[Tensor] = []
            for stage in group.stages:
                if stage in places and stage not in together:
                    continue
                own = self._merged(together[stage]) if stage in together else stage
                new[stage] = with_body(own, map_expr(own.element, leaf))
                stages.append(new[stage])
            if stages:
                came = [s for first in group.stages for s in together.get(first, ())]
                whole = group_of_stages(self.program, [*group.stages, *came], group.stages[0])
                groups.append(dataclasses.replace(whole, stages=tuple(stages)))
        outputs = tuple(new.get(t, t) for t in self.program.outputs)
        return self.weights.of(dataclasses.replace(self.program, outputs=outputs, groups=tuple(groups)))
