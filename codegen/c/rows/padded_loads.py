"""Loads of a last block that is longer than what is left of an axis: through copies with zeros behind its end.

Where the length of an axis is known when the code runs, its last block is as long as the others, so that loops and
vectors are those of every block; what would be read behind the end is read from a copy, which holds zeros there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import Alloc, For, Stmt, Store
from byoc.codegen.kernel.reductions import loops
from byoc.codegen.kernel.simplify import as_index
from byoc.te import Dimension, Index, PrimExpr, Tensor, const, placeholder
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, mentions, unique_nodes


@dataclass(frozen=True)
class PaddedLoads:
    """The block of an axis of *length* elements that begins at *start*, beyond whose end it may reach."""

    start: PrimExpr
    length: Dimension

    @property
    def count(self) -> PrimExpr:
        """How many elements of the block exist."""
        return as_index(self.length) - self.start

    def filled_up(self, array: Tensor, value: float) -> list[Stmt]:
        """*value* in *array*, whose last axis is the block's, behind the last element that exists."""
        axes = [Index("row", d) for d in array.shape]
        store = Store(array, axes, const(value, array.dtype))
        return loops(axes[:-1], [For(axes[-1], array.shape[-1], [store], start=self.count)])

    def copied(self, nest: Nest, inner: Index, local: Collection[Tensor]) -> tuple[list[Stmt], Nest]:
        """The loops that copy what *nest* loads at positions *inner* of the block, and *nest* over the copies.

        Tensors in *local* have the block's length, and are read as they are. Requires that the extents of the axes of
        *nest* and of its reductions are numbers, but for those that only a tensor in *local* is read by.
        """
        nodes = list(unique_nodes(nest.value))
        axes = {*nest.axes, *(a for n in nodes if isinstance(n, Reduce) for a in n.axes)}
        code: list[Stmt] = []
        known: dict[int, Load] = {}
        for load in (n for n in nodes if isinstance(n, Load) and n.tensor not in local):
            if any(mentions(i, inner) for i in load.indices):
                copy, known[id(load)] = self._copy(load, inner, axes)
                code += copy
        value = map_expr(nest.value, lambda e: known.get(id(e)) if isinstance(e, Load) else None)
        return code, dataclasses.replace(nest, value=value)

    def _copy(self, load: Load, inner: Index, inside: Collection[Index]) -> tuple[list[Stmt], Load]:
        """The loops that copy what *load* loads over the axes *inside*, and the load of the copy."""
        found = [n for i in load.indices for n in unique_nodes(i) if isinstance(n, Index)]
        axes = [a for a in dict.fromkeys(found) if a in inside]
        own = {a: Index(a.name, a.extent) for a in axes}
        shape = [int(a.extent) for a in axes]
        target = placeholder(shape, load.dtype, f"{load.tensor.name}_end")
        moved = map_expr(load, lambda e: own.get(e) if isinstance(e, Index) else None)

        def over(value: PrimExpr, start: Dimension, end: Dimension) -> list[Stmt]:
            body: list[Stmt] = [Store(target, tuple(own.values()), value)]
            for axis, index in reversed(own.items()):
                keyed = axis is inner
                body = [For(index, end if keyed else index.extent, body, start=start if keyed else 0)]
            return body

        zeros = over(const(0, load.dtype), self.count, inner.extent)
        return [Alloc(target, aligned=True), *over(moved, 0, self.count), *zeros], Load(target, tuple(axes))
