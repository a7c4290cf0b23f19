"""A kernel as its schedule made it: its statements, how it is launched, and for which sizes of a call."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.loops import LetStmt, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.statements import LOCAL_SIZE
from byoc.te import Dimension, Index, PrimExpr, Tensor, binary
from byoc.te.expr import Const


@dataclass(frozen=True)
class Range:
    """A number of elements that is at least *least* and at most *most*."""

    number: PrimExpr
    least: int = 0
    most: int | None = None

    @staticmethod
    def of(shape: Sequence[Dimension], simplify: Simplifier, least: int = 0, most: int | None = None) -> Range:
        """That of the elements of *shape*."""
        return Range(simplify(product(shape)), least, most)

    def known(self) -> bool | None:
        """Whether it holds; None where that depends on the sizes of a call."""
        if not isinstance(self.number, Const):
            return None
        return self.least <= int(self.number.value) <= (math.inf if self.most is None else self.most)


@dataclass(frozen=True)
class KernelPlan:
    """A kernel's statements and its launch: *extent* work-items, or as many work-groups where *groups*.

    *schedule* names it; it is for calls in which all of *when* holds. *items*: the work-items that each of its groups
    must have; without it any divisor of *local* serves, and the driver chooses where that is 0.
    """

    schedule: str
    statements: Sequence[Stmt]
    extent: PrimExpr
    groups: bool = False
    when: tuple[Range, ...] = ()
    items: int | None = None
    local: int = LOCAL_SIZE


OWN_KERNEL = "own_kernel"  # in the ``meta`` of a stage: an OwnKernel


class OwnKernel(ABC):
    """What has the only kernel of a stage, which was made for it: no schedule is chosen."""

    @abstractmethod
    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """The kernel of *stage*."""


def own_kernel(stage: Tensor) -> OwnKernel | None:
    """What has the kernel of *stage*; None where schedules are chosen from."""
    found = stage.meta.get(OWN_KERNEL)
    return found if isinstance(found, OwnKernel) else None


def product(shape: Sequence[Dimension]) -> PrimExpr:
    """The number of elements of *shape*."""
    result = as_index(1)
    for extent in shape:
        result = binary("mul", result, as_index(extent))
    return result


def unravel(flat: Index, axes: Sequence[Index]) -> list[Stmt]:
    """Each of *axes* as a variable, from a row-major position among all their points."""
    lets: list[Stmt] = []
    stride = as_index(1)
    for k in reversed(range(len(axes))):
        axis = axes[k]
        if axis.extent == 1:
            continue
        value = binary("div", flat, stride)
        outermost = all(a.extent == 1 for a in axes[:k])
        lets.append(LetStmt(axis, value if outermost else binary("mod", value, as_index(axis.extent))))
        stride = binary("mul", stride, as_index(axis.extent))
    return lets[::-1]


def at(tensor: Tensor, position: PrimExpr) -> tuple[PrimExpr, ...]:
    """Indices whose row-major position in *tensor* is *position*."""
    return (*(as_index(0) for _ in tensor.shape[1:]), position) if tensor.shape else ()


def numbered(name: str, axes: Sequence[Index], simplify: Simplifier) -> tuple[Index, list[Stmt]]:
    """An index over all points of *axes* in row-major order, and the axes as variables of it."""
    long = [a for a in axes if a.extent != 1]
    if len(long) == 1:
        return long[0], []
    flat = Index(name, simplify(product([a.extent for a in axes])))
    return flat, unravel(flat, axes)
