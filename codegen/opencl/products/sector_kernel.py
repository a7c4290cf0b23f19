"""Kernels that fill memory in another order than that of what they read: neighbours read neighbours, and each stores a
whole sector.

A work-item has the elements of SECTOR bytes along the last axis of what it fills. Its neighbours are next to it along
the axis before, whose neighbours lie side by side where it reads, so that loads and stores both move whole sectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.rewrite_stages import with_meta
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import OWN_KERNEL, KernelPlan, OwnKernel, numbered
from byoc.codegen.opencl.device.statements import LOCAL_SIZE, StoreVector, WorkItem
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor
from byoc.te.tensor import Load

SECTOR = 32  # bytes that a GPU's memory moves at once
WIDEST = 16  # elements of a vector of OpenCL C


def has_sectors(tensor: Tensor, axis: int) -> bool:
    """Whether whole sectors lie along *axis* of *tensor*, once that is last, and the axis before is another one."""
    extent = tensor.shape[axis]
    return axis < len(tensor.shape) - 1 and isinstance(extent, int) and extent % _width(tensor.dtype) == 0


def _width(dtype: str) -> int:
    return min(SECTOR // dtype_bytes(dtype), WIDEST)


def copied_by_sectors(source: Tensor, axis: int) -> Tensor:
    """A stage with the elements of *source*, *axis* moved to the end."""
    axes = tuple(Index(f"i{k}", extent) for k, extent in enumerate(source.shape))
    copy = Tensor(f"{source.name}_turned", source.shape, source.dtype, axes, Load(source, axes))
    return filled_by_sectors(copy, axis)


def filled_by_sectors(stage: Tensor, axis: int) -> Tensor:
    """*stage* with *axis* moved to the end, filled by such a kernel."""
    shape, axes = (
        (*whole[:axis], *whole[axis + 1 :], whole[axis]) for whole in (tuple(stage.shape), tuple(stage.axes))
    )
    made = Tensor(stage.name, shape, stage.dtype, axes, stage.body, stage.tag, stage.meta)
    return with_meta(made, OWN_KERNEL, SectorKernel())


@dataclass(frozen=True)
class SectorKernel(OwnKernel):
    """A work-item a sector of the last axis."""

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """That of *stage*, whose axis before the last one is the last of what it reads."""
        *others, beside, last = stage.axes
        width = _width(stage.dtype)
        sector = Index("sector", int(last.extent) // width)
        item, axes = numbered("item", [*others, sector, beside], simplify)
        places: list[PrimExpr] = [sector * width + k for k in range(width)]
        values = [substitute_axes(stage.element, [last], [place]) for place in places]
        store = StoreVector(stage, (*others, beside, places[0]), values)
        return KernelPlan("sector", [WorkItem(item, LOCAL_SIZE), *axes, store], as_index(item.extent))
