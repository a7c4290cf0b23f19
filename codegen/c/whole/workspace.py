"""Where the temporaries of one symbol lie in its workspace.

Two buffers share bytes only if no group needs both. Buffers of symbolic size come after the others, one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from byoc.codegen.kernel.program import Program
from byoc.ir.types import dtype_bytes
from byoc.runtime.graph.memory_plan import Lifetime, plan_memory
from byoc.te import Tensor
from byoc.te.walk import loaded_tensors

__all__ = ["WorkspacePlan", "plan_workspace"]


@dataclass(frozen=True)
class WorkspacePlan:
    """``offsets`` of the temporaries of static size, the bytes that these need, and those of symbolic size.

    ``guard`` bytes before and behind each are nobody's.
    """

    offsets: dict[Tensor, int]
    static_bytes: int
    symbolic: tuple[Tensor, ...]
    guard: int = 0


def plan_workspace(program: Program, guard: int = 0) -> WorkspacePlan:
    """A place for each temporary of *program*; with *guard* bytes around each, none shares its place with another."""
    lives = {t: (0, 0) for t in program.temporaries} if guard else _lifetimes(program)
    sizes = {t: _bytes(t) for t in program.temporaries}
    static = [t for t, size in sizes.items() if size is not None]
    memory = plan_memory([Lifetime((sizes[t] or 0) + 2 * guard, *lives[t]) for t in static])
    symbolic = tuple(t for t, size in sizes.items() if size is None)
    offsets = [offset + guard for offset in memory.offsets]
    return WorkspacePlan(dict(zip(static, offsets, strict=True)), memory.total, symbolic, guard)


def _bytes(tensor: Tensor) -> int | None:
    """The size, or None for a symbolic one."""
    sizes = [d for d in tensor.shape if isinstance(d, int)]
    return math.prod(sizes) * dtype_bytes(tensor.dtype) if len(sizes) == len(tensor.shape) else None


def _lifetimes(program: Program) -> dict[Tensor, tuple[int, int]]:
    """From the group that fills a buffer to the last that reads it."""
    lives: dict[Tensor, tuple[int, int]] = {}
    for number, group in enumerate(program.parts):
        for stage in group.stages:
            lives[stage] = (number, number)
            for source in [] if stage.body is None else loaded_tensors(stage.body):
                if source in lives:
                    lives[source] = (lives[source][0], number)
    return lives
