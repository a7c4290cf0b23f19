"""The stage that packs an operand, and its kernel: lanes and terms in tiles that pass through local memory.

A group reads 32 lanes of one step in the order in which memory has them, and stores vectors of 16 bytes as they stand
in the packed tensor.
"""

from __future__ import annotations

from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import UNROLL, For, IfThenElse, Stmt, Store
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import OWN_KERNEL, KernelPlan, OwnKernel, unravel
from byoc.codegen.opencl.device.statements import GroupBarrier, LocalArray, LocalItem, StoreVector, WorkGroup
from byoc.codegen.opencl.packed.layout import BLOCK, CHUNKS, LeftLayout, PackedLayout, axes_of, inside
from byoc.codegen.opencl.products.matrix_format import CHUNK, ROWS, WARP
from byoc.ir.types import dtype_bytes
from byoc.te import Index, PrimExpr, Tensor, binary, const, placeholder
from byoc.te.expr import Select
from byoc.te.tensor import Load
from byoc.te.walk import loaded_tensors, map_expr

LANES = 32  # of a group
ITEMS = 256  # of a group, each a vector of 16 bytes
BANK_BYTES = 4


@dataclass(frozen=True)
class PackedSource:
    """What is packed: *value* is that of the axes *lane* and *term*, of elements of one tensor.

    *by_lane*: neighbouring lanes lie side by side in memory.
    """

    value: PrimExpr
    lane: Index
    term: Index
    by_lane: bool

    def at(self, tensor: Tensor, lane: PrimExpr, term: PrimExpr) -> PrimExpr:
        """The value of a lane's term, of elements of *tensor*."""

        def leaf(expr: PrimExpr) -> PrimExpr | None:
            return expr.of(tensor, expr.indices) if isinstance(expr, Load) else None

        return substitute_axes(map_expr(self.value, leaf), [self.lane, self.term], [lane, term])


def packing_stage(source: PackedSource, tensor: Tensor, layout: PackedLayout, name: str) -> Tensor:
    """The stage of the packed tensor, of *source*'s elements of *tensor*."""
    axes = axes_of(layout)
    lane, term = layout.source(axes)
    value = source.at(tensor, lane, term)
    exists = inside(layout, lane, term)
    if exists is not None:
        value = Select(exists, value, const(0, value.dtype))
    meta: dict[str, object] = {OWN_KERNEL: PackingKernel(source, layout)}
    return Tensor(name, layout.shape, value.dtype, axes, value, meta=meta)


@dataclass(frozen=True)
class PackingKernel(OwnKernel):
    """A group 32 lanes of a step."""

    source: PackedSource
    layout: PackedLayout

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """That of *stage*, which loads one tensor."""
        (tensor,) = loaded_tensors(stage.element)
        layout, points = self.layout, self.layout.points
        pad = max(BANK_BYTES // dtype_bytes(stage.dtype), 1)
        tile = placeholder((LANES, points + pad), stage.dtype, "tile")
        lanes, step = Index("lanes", layout.blocks * BLOCK // LANES), Index("step", layout.steps)
        group, item = Index("group", int(lanes.extent) * layout.steps), Index("item", ITEMS)
        return KernelPlan(
            "pack",
            [
                LocalArray(tile),
                WorkGroup(group),
                *unravel(group, [lanes, step]),
                LocalItem(item),
                self._filled(tensor, tile, (lanes, step), item),
                GroupBarrier(),
                self._stored(stage, tile, (lanes, step), item),
            ],
            as_index(group.extent),
            True,
            items=ITEMS,
        )

    def _filled(self, tensor: Tensor, tile: Tensor, place: tuple[Index, Index], item: Index) -> Stmt:
        """Neighbouring work-items read what lies side by side."""
        points = self.layout.points
        turn = Index("turn", LANES * points // ITEMS)
        own: tuple[PrimExpr, PrimExpr]
        if self.source.by_lane:
            own = item % LANES, turn * (ITEMS // LANES) + item // LANES
        else:
            own = turn * (ITEMS // points) + item // points, item % points
        lane, term = place[0] * LANES + own[0], place[1] * points + own[1]
        value = self.source.at(tensor, lane, term)
        exists = inside(self.layout, lane, term)
        body: list[Stmt] = [Store(tile, own, value)]
        if exists is not None:  # memory is not read beyond the last
            zero = Store(tile, own, const(0, value.dtype))
            body = [zero, IfThenElse(exists, body)]
        return For(turn, turn.extent, body, UNROLL)

    def _stored(self, stage: Tensor, tile: Tensor, place: tuple[Index, Index], item: Index) -> Stmt:
        lanes, step = place
        per_word = self.layout.per_word
        if isinstance(self.layout, LeftLayout):
            sixteen, instruction, own = item // (ITEMS // 2), item % (ITEMS // 2) // WARP, item % WARP
            word = instruction * 8 + own % 4
            values = [
                tile[sixteen * ROWS + own // 4 + r % 2 * 8, (word + r // 2 * 4) * per_word + half]
                for r in range(4)
                for half in range(per_word)
            ]
            first = lanes * (LANES // ROWS) + sixteen, step, instruction, own, as_index(0), as_index(0)
            return StoreVector(stage, first, values)
        line, chunk = item // CHUNKS, item % CHUNKS
        turned = binary("bit_xor", chunk, line % CHUNKS)
        values = [tile[line, turned * (CHUNK * per_word) + k] for k in range(CHUNK * per_word)]
        parts = BLOCK // LANES
        return StoreVector(stage, (lanes // parts, step, lanes % parts * LANES + line, chunk, as_index(0)), values)
