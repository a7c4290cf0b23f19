"""A Program over a batch as one over a single item of it, where each item is computed from itself alone.

What a stage loads says so, whatever operators it came from: where it loads elements of the batch, they are of its own
item, and nothing else in it asks which item that is. What stands beside the batch (weights, shapes) all items share.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container

from byoc.codegen.kernel.program import Program, holds_batch
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te import Dimension, Index, PrimExpr, Size, Tensor, const, recurrence
from byoc.te.expr import INDEX
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, mentions, unique_nodes


def item_program(program: Program, size: Dimension) -> Program | None:
    """*program* over one item of a batch of *size* items, its ``batch``; itself where it reads and makes no batch.

    None where an item is computed from others, or from its place among them, where a free *size* is part of another
    dimension, or where nothing can be said (a routine, steps that read steps before).
    """
    stages = [s for g in program.parts for s in g.stages]
    loaded = {t for s in stages if s.body is not None for t in loaded_tensors(s.body)}
    tensors = [*(t for t in program.inputs if t in loaded), *stages]
    if program.routine is not None:
        tensors += program.routine.reads
    dims = [d for t in tensors for d in (t.shape[1:] if holds_batch(t.shape, size) else t.shape)]
    if any(_follows_from(d, size) for d in dims):
        return None
    if not any(holds_batch(t.shape, size) for t in tensors):
        return program
    if program.routine is not None:
        return None
    if any(recurrence(g.stages) for g in program.groups):
        return None
    moving = {t for t in tensors if holds_batch(t.shape, size)}
    return _ItemRewriter(program, size).run() if all(_is_of_items(s, moving) for s in stages) else None


def _follows_from(dim: Dimension, size: Dimension) -> bool:
    """Whether *dim* depends on a free *size*; a size that is derived from it has its name within its own."""
    if not isinstance(dim, PrimExpr) or not isinstance(size, Size):
        return False
    return any(isinstance(n, Size) and size.name in n.name for n in unique_nodes(dim))


def _is_of_items(stage: Tensor, moving: Container[Tensor]) -> bool:
    """Whether each item of *stage* needs of those that are *moving*, which hold a batch, the same item alone.

    Nor may it need its own number for anything else.
    """
    axis = stage.axes[0] if stage in moving else None
    simplify = Simplifier()
    own: list[PrimExpr] = []  # the first indices of loads, which may be the number of the item

    def place(e: PrimExpr) -> PrimExpr | None:
        if not isinstance(e, Load) or e.tensor not in moving:
            return None
        own.append(simplify(e.indices[0]))
        return e.of(e.tensor, [const(0, INDEX), *(map_expr(i, place) for i in e.indices[1:])])

    rest = simplify(map_expr(stage.element, place))
    return all(index is axis for index in own) and (axis is None or not mentions(rest, axis))


class _ItemRewriter:
    """Makes the tensors of a program those of one item."""

    def __init__(self, program: Program, size: Dimension):
        self._program, self._size = program, size
        self._new: dict[Tensor, Tensor] = {}
        self._axes: dict[int, Index] = {}

    def run(self) -> Program:
        program = self._program
        inputs = tuple(self._tensor(t) for t in program.inputs)
        for stage in (s for g in program.groups for s in g.stages):
            made = self._tensor(stage)
            made.body = map_expr(stage.element, self._leaf)
        groups = tuple(
            dataclasses.replace(g, stages=tuple(map(self._tensor, g.stages)), local=tuple(map(self._tensor, g.local)))
            for g in program.groups
        )
        outputs = tuple(map(self._tensor, program.outputs))
        return dataclasses.replace(program, inputs=inputs, outputs=outputs, groups=groups, batch=self._size)

    def _tensor(self, tensor: Tensor) -> Tensor:
        """What stands for *tensor*: that of one item where it holds a batch, else one like it."""
        if tensor not in self._new:
            shape, axes = tensor.shape, tensor.axes
            if holds_batch(shape, self._size):
                shape = (1, *shape[1:])
                if axes:
                    self._axes[id(axes[0])] = Index(axes[0].name, 1)
                    axes = (self._axes[id(axes[0])], *axes[1:])
            known = tensor.known
            self._new[tensor] = Tensor(tensor.name, shape, tensor.dtype, axes, None, tensor.tag, tensor.meta, known)
        return self._new[tensor]

    def _leaf(self, e: PrimExpr) -> PrimExpr | None:
        if isinstance(e, Index):
            return self._axes.get(id(e))
        if isinstance(e, Load) and e.tensor in self._new:
            return e.of(self._new[e.tensor], [map_expr(i, self._leaf) for i in e.indices])
        return None
