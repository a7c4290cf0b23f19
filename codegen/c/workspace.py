"""Where the temporaries of a program lie in its workspace: by lifetime, best fit, 64-byte aligned.

Two buffers share bytes only if no group needs both. Buffers of symbolic size come after the others, one by one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import loaded_tensors
from byoc.codegen.kernel.program import Program
from byoc.ir.types import dtype_bytes
from byoc.te import Tensor

ALIGNMENT = 64


@dataclass(frozen=True)
class WorkspacePlan:
    """``offsets`` of the temporaries of static size, the bytes that these need, and those of symbolic size."""

    offsets: dict[Tensor, int]
    static_bytes: int
    symbolic: tuple[Tensor, ...]


def plan_workspace(program: Program) -> WorkspacePlan:
    """A place for each temporary of *program*."""
    lives = _lifetimes(program)
    static = [t for t in program.temporaries if _bytes(t) is not None]
    symbolic = tuple(t for t in program.temporaries if _bytes(t) is None)
    offsets: dict[Tensor, int] = {}
    for tensor in sorted(static, key=lambda t: -(_bytes(t) or 0)):
        busy = sorted(
            (offsets[o], offsets[o] + (_bytes(o) or 0)) for o in offsets if _overlap(lives[o], lives[tensor])
        )
        offsets[tensor] = _best_fit(busy, _bytes(tensor) or 0)
    end = max((offsets[t] + (_bytes(t) or 0) for t in offsets), default=0)
    return WorkspacePlan(offsets, end, symbolic)


def _bytes(tensor: Tensor) -> int | None:
    """The aligned size, or None for a symbolic one."""
    if not all(isinstance(d, int) for d in tensor.shape):
        return None
    size = math.prod(tensor.shape) * dtype_bytes(tensor.dtype)  # type: ignore[arg-type]
    return -(-size // ALIGNMENT) * ALIGNMENT


def _lifetimes(program: Program) -> dict[Tensor, tuple[int, int]]:
    """From the group that fills a buffer to the last that reads it."""
    lives: dict[Tensor, tuple[int, int]] = {}
    for number, group in enumerate(program.groups):
        for stage in group.stages:
            lives[stage] = (number, number)
            for source in loaded_tensors(stage.body):  # type: ignore[arg-type]
                if source in lives:
                    lives[source] = (lives[source][0], number)
    return lives


def _overlap(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _best_fit(busy: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between *busy* intervals that holds *size*, or the end of the last."""
    best: tuple[int, int] | None = None
    position = 0
    for start, end in busy:
        gap = start - position
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, position)
        position = max(position, end)
    return best[1] if best is not None else position
