"""Exchanges of axes by tiles that pass through local memory, for tensors of which a device has many tiles.

A group reads a tile along the axis along which what it reads lies, puts it into local memory, and from there stores
whole lines along the last axis. ``sectors.py`` stores a sector of each of many lines instead, which needs no group to
wait: on an H200 4096 by 4096 numbers take 127 microseconds so, by tiles 40 (float32; halves 99 and 31), and what has
few tiles stays with sectors, since each tile is a whole group.
"""

from __future__ import annotations

from byoc.codegen.kernel.collapse import Nest
from byoc.codegen.kernel.loops import UNROLL, For, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range, numbered
from byoc.codegen.opencl.device.statements import GroupBarrier, LocalArray, LocalItem, StoreVector, WorkGroup
from byoc.codegen.opencl.elements.sectors import at_place, last_axis
from byoc.ir.types import dtype_bytes
from byoc.te import Dimension, Index, PrimExpr, Tensor, binary, placeholder

BESIDE, LAST = 64, 32  # the sides of a tile: along the axis that what is read lies along, along the last one
ITEMS = 128  # of a group
TILES_OF_A_UNIT = 2  # from which a device is full
VECTOR_BYTES = 16  # that a work-item stores at once
BANK_BYTES = 4  # of local memory: lines begin in different ones


def enough_tiles(nest: Nest, beside: Index, units: int, simplify: Simplifier) -> Range:
    """The tiles of *nest*, and from how many on they are the schedule for a device of so many *units*."""
    last = last_axis(nest)
    others = [a.extent for a in nest.axes if a is not beside and a is not last]
    return Range.of([*others, _blocks(last, LAST), _blocks(beside, BESIDE)], simplify, least=TILES_OF_A_UNIT * units)


def _blocks(axis: Index, size: int) -> Dimension:
    return -(-axis.extent // size) if isinstance(axis.extent, int) else (as_index(axis.extent) + (size - 1)) // size


def turned_kernel(nest: Nest, beside: Index, simplify: Simplifier, when: tuple[Range, ...] = ()) -> KernelPlan:
    """A group a tile of *beside* by the last axis, for calls in which all of *when* holds.

    The last axis is whole sectors.
    """
    last = last_axis(nest)
    stage, width = nest.stage, VECTOR_BYTES // dtype_bytes(nest.stage.dtype)
    tile = placeholder((BESIDE, _line(stage.dtype)), stage.dtype, "tile")
    across, down = Index("across", _blocks(beside, BESIDE)), Index("down", _blocks(last, LAST))
    others = [a for a in nest.axes if a is not beside and a is not last]
    group, axes = numbered("group", [*others, down, across], simplify)
    item = Index("item", ITEMS)
    return KernelPlan(
        "turn",
        [
            LocalArray(tile),
            WorkGroup(group),
            *axes,
            LocalItem(item),
            *_filled(nest, tile, (across, beside), (down, last), item),
            GroupBarrier(),
            *_stored(nest, tile, (across, beside), (down, last), item, width),
        ],
        as_index(group.extent),
        True,
        when,
        ITEMS,
    )


def local_bytes(dtype: str) -> int:
    """What a tile takes of local memory.

    >>> local_bytes("float32"), local_bytes("float64")
    (8448, 16896)
    """
    return BESIDE * _line(dtype) * dtype_bytes(dtype)


def _line(dtype: str) -> int:
    return LAST + max(BANK_BYTES // dtype_bytes(dtype), 1)


TiledAxis = tuple[Index, Index]  # the number of a tile along an axis, and the axis


def _filled(nest: Nest, tile: Tensor, across: TiledAxis, down: TiledAxis, item: Index) -> list[Stmt]:
    """Neighbours read neighbours: they lie side by side along the axis of *across*."""
    lines = ITEMS // BESIDE
    line = Index("line", LAST // lines)
    column, row = item % BESIDE, line * lines + item // BESIDE
    place_across, place_down = across[0] * BESIDE + column, down[0] * LAST + row
    fill: list[Stmt] = [LetStmt(down[1], place_down), Store(tile, (column, row), nest.value)]
    body = _inside(down[1], LAST, place_down, fill)
    loop: list[Stmt] = [LetStmt(across[1], place_across), For(line, line.extent, body, UNROLL)]
    return _inside(across[1], BESIDE, place_across, loop)


def _stored(nest: Nest, tile: Tensor, across: TiledAxis, down: TiledAxis, item: Index, width: int) -> list[Stmt]:
    """Neighbours store neighbours, each a vector along the last axis."""
    per_line = LAST // width
    lines = ITEMS // per_line
    line = Index("line", BESIDE // lines)
    row, column = line * lines + item // per_line, item % per_line * width
    place_across, place_down = across[0] * BESIDE + row, down[0] * LAST + column
    indices = at_place(nest.indices, [across[1], down[1]], [place_across, place_down])
    store: list[Stmt] = [StoreVector(nest.stage, indices, [tile[row, column + k] for k in range(width)])]
    inside = _inside(across[1], BESIDE, place_across, _inside(down[1], LAST, place_down, store))
    return [For(line, line.extent, inside, UNROLL)]


def _inside(axis: Index, size: int, place: PrimExpr, body: list[Stmt]) -> list[Stmt]:
    """*body* where *place* is one of *axis*, of which tiles have *size*."""
    if isinstance(axis.extent, int) and axis.extent % size == 0:
        return body
    return [IfThenElse(binary("lt", place, as_index(axis.extent)), body)]
