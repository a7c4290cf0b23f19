"""Rows of a group: stages that pass values along common leading axes are computed row by row, one after the other.

Softmax, layer norms and the like are stages that read each other only at the same leading positions. One loop over
these positions computes all of them for one row; what no other group reads is a row's buffer on the stack, or a
variable, and lies in no workspace. No thread waits for another inside such a loop.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from byoc.codegen.c.rows.row_blocks import row_blocks_of
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.loops import Alloc, Stmt
from byoc.codegen.kernel.reductions import is_product
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, placeholder
from byoc.te.expr import Reduce
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr, unique_nodes

LARGEST_ROW = 32768  # bytes of one buffer on the stack
LARGEST_FRAME = 131072  # of all buffers of one loop
FEWEST_ROWS = 8  # with fewer, threads share the stages one by one, unless all of it is small
SMALL_WORK = 32768  # elements
SHORTEST_ROW = 16


@dataclass(frozen=True)
class Rows:
    """Consecutive *stages* of a group over *depth* common leading axes; a depth of 0 is a single stage by itself."""

    stages: tuple[Tensor, ...]
    depth: int


def rows_of(stages: Sequence[Tensor]) -> list[Rows]:
    """*stages* in order, as many together as have leading axes in common."""
    result: list[Rows] = []
    if any(t in stages[k:] for k, s in enumerate(stages) for t in loaded_tensors(s.element)):
        return [Rows((s,), 0) for s in stages]  # a recurrence keeps its order
    start = 0
    while start < len(stages):
        rows = _longest(stages[start:])
        result += _worthwhile(rows)
        start += len(rows.stages)
    return result


def _longest(stages: Sequence[Tensor]) -> Rows:
    """As many of the first *stages* as have leading axes in common, each of them read by another or reading it."""
    end = 1
    if not _is_apart(stages[0]):
        while end < len(stages) and not _is_apart(stages[end]) and _connected(stages[end], stages[:end]):
            end += 1
    for count in range(end, 1, -1):
        depth = common_depth(stages[:count])
        if depth:
            return Rows(tuple(stages[:count]), depth)
    return Rows((stages[0],), 0)


def _is_apart(stage: Tensor) -> bool:
    """Whether *stage* has a schedule of its own for whole tensors."""
    assert stage.body is not None
    return any(isinstance(n, Reduce) and is_product(n) for n in unique_nodes(stage.body))


def _connected(stage: Tensor, others: Sequence[Tensor]) -> bool:
    return any(t in others for t in loaded_tensors(stage.element))


def common_depth(stages: Sequence[Tensor]) -> int:
    """Over how many leading axes *stages* read each other only at the position at which they are."""
    largest = max(stages, key=lambda s: estimated_size(s.shape))
    long = [k for k, d in enumerate(largest.shape) if d != 1]
    depth = long[-1] if long else 0
    for stage in stages:
        depth = min(depth, len(stage.axes))
        for k in range(depth):
            if stage.shape[k] != largest.shape[k]:
                depth = k
                break
        for node in unique_nodes(stage.element):
            if isinstance(node, Load) and node.tensor in stages:
                while not all(i is a for i, a in zip(node.indices[:depth], stage.axes[:depth], strict=True)):
                    depth -= 1
    return depth


def _worthwhile(rows: Rows) -> list[Rows]:
    """*rows*, or its stages one by one where rows are too few to share or too short."""
    if len(rows.stages) == 1:
        return [rows]
    largest = max(rows.stages, key=lambda s: estimated_size(s.shape))
    count = estimated_size(largest.shape[: rows.depth])
    whole = estimated_size(largest.shape)
    if whole // max(count, 1) < SHORTEST_ROW or (count < FEWEST_ROWS and whole > SMALL_WORK):
        return [Rows((s,), 0) for s in rows.stages]
    return [rows]


def local_stages(stages: Sequence[Tensor], outside: Collection[Tensor], machine: Machine) -> tuple[Tensor, ...]:
    """Those of a group's *stages* that only their row needs; *outside* are those that anything else reads."""
    blocks = row_blocks_of(stages, outside, machine)
    result: list[Tensor] = [] if blocks is None else list(blocks.stages[:-1])
    parts = (stages,) if blocks is None else blocks.around(stages)
    for rows in [r for part in parts for r in rows_of(part)] if machine.lanes(4) > 1 else ():
        frame = 0
        for stage in rows.stages if rows.depth else ():
            readers = [s for s in stages if stage in loaded_tensors(s.element)]
            if stage in outside or not all(r in rows.stages for r in readers):
                continue
            size = _row_bytes(stage, rows.depth)
            if size is not None and size <= LARGEST_ROW and frame + size <= LARGEST_FRAME:
                frame += size
                result.append(stage)
    return tuple(result)


def _row_bytes(stage: Tensor, depth: int) -> int | None:
    row = [d for d in stage.shape[depth:] if isinstance(d, int)]
    return math.prod(row) * dtype_bytes(stage.dtype) if len(row) == len(stage.shape[depth:]) else None


def row_nests(rows: Rows, local: Collection[Tensor]) -> tuple[list[Index], list[tuple[list[Stmt], Nest]]]:
    """The common axes, and for each stage what declares its buffer and its nest over the axes that remain."""
    leading = list(rows.stages[-1].axes[: rows.depth])
    buffers: dict[Tensor, Tensor] = {}
    result: list[tuple[list[Stmt], Nest]] = []
    for stage in rows.stages:
        table = dict(zip(stage.axes[: rows.depth], leading, strict=True))
        value = _in_row(stage.element, table, buffers, rows.depth)
        inner = stage.axes[rows.depth :]
        axes = tuple(a for a in inner if a.extent != 1)
        if stage in local:
            shape = tuple(a.extent for a in inner) if axes else ()
            buffers[stage] = placeholder(shape, stage.dtype, stage.name)
            indices: tuple[PrimExpr, ...] = tuple(inner) if axes else ()
            result.append(([Alloc(buffers[stage], aligned=bool(axes))], Nest(buffers[stage], axes, indices, value)))
        else:
            result.append(([], Nest(stage, axes, (*leading, *inner), value)))
    return leading, result


def _in_row(body: PrimExpr, table: dict[Index, Index], buffers: dict[Tensor, Tensor], depth: int) -> PrimExpr:
    def leaf(expr: PrimExpr) -> PrimExpr | None:
        if isinstance(expr, Index):
            return table.get(expr)
        if isinstance(expr, Load) and expr.tensor in buffers:
            buffer = buffers[expr.tensor]
            places = [map_expr(i, leaf) for i in expr.indices[depth:]]
            return expr.of(buffer, places if buffer.shape else ())
        return None

    return map_expr(body, leaf)
