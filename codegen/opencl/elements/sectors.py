"""Stages that fill memory in another order than that of what they read, as an exchange of axes does.

Where neighbours fill neighbours they would read far apart. Here they read neighbours: work-items lie side by side along
the axis along which what they read does, and each stores the elements of a whole sector at once along the last axis,
so that loads and stores both move whole sectors.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, numbered
from byoc.codegen.opencl.device.statements import StoreVector, WorkItem
from byoc.ir.types import dtype_bytes
from byoc.te import Dimension, Index, PrimExpr
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import checks_of, unique_nodes

SECTOR = 32  # bytes that a GPU's memory moves at once
WIDEST = 16  # elements of a vector of OpenCL C
MOST_NODES = 48  # of an element, which is written out for each of a sector


def sector_width(dtype: str) -> int:
    """The elements of a sector, or as many as a vector has.

    >>> sector_width("float32"), sector_width("float16"), sector_width("int8")
    (8, 16, 16)
    """
    return min(SECTOR // dtype_bytes(dtype), WIDEST)


def has_sectors(extent: Dimension, dtype: str) -> bool:
    """Whether so many elements side by side are whole sectors."""
    return isinstance(extent, int) and extent % sector_width(dtype) == 0


def axis_of_neighbours(nest: Nest, simplify: Simplifier) -> Index | None:
    """The axis along which *nest* reads neighbours, where that is not the last one, along which it fills them.

    None where nothing lies so, and where an element is too much to be written out.
    """
    moving = [a for a in nest.axes if a.extent != 1]
    if len(moving) < 2 or not has_sectors(moving[-1].extent, nest.stage.dtype):
        return None
    nodes = list(unique_nodes(nest.value))
    if len(nodes) > MOST_NODES or any(isinstance(n, Reduce) for n in nodes) or checks_of([nest.value]):
        return None
    places = [simplify.flat_index(n.tensor, n.indices) for n in nodes if isinstance(n, Load) and n.indices]
    apart = [p for p in places if p.coefficient(moving[-1]) not in (0, 1)]
    beside = [a for a in moving[:-1] if apart and all(p.coefficient(a) == 1 for p in apart)]
    return beside[0] if beside else None


def last_axis(nest: Nest) -> Index:
    """The axis along which *nest* fills neighbours. Raises StopIteration where there is one element."""
    return next(a for a in reversed(nest.axes) if a.extent != 1)


def sector_kernel(
    nest: Nest, beside: Index, simplify: Simplifier, local: int, when: tuple[Range, ...] = ()
) -> KernelPlan:
    """A work-item a sector of the last axis, *local* of them a group; the next is next to it along *beside*.

    For calls in which all of *when* holds.
    """
    last = last_axis(nest)
    width = sector_width(nest.stage.dtype)
    sector = Index("sector", int(last.extent) // width)
    others = [a for a in nest.axes if a is not last and a is not beside]
    item, axes = numbered("item", [*others, sector, beside], simplify)
    places: list[PrimExpr] = [sector * width + k for k in range(width)]
    values = [substitute_axes(nest.value, [last], [place]) for place in places]
    store = StoreVector(nest.stage, at_place(nest.indices, [last], [places[0]]), values)
    return KernelPlan("sector", [WorkItem(item, local), *axes, store], as_index(item.extent), when=when, local=local)


def at_place(indices: Sequence[PrimExpr], axes: Sequence[Index], places: Sequence[PrimExpr]) -> list[PrimExpr]:
    """*indices* with *places* for *axes*."""
    return [substitute_axes(i, axes, places) for i in indices]
