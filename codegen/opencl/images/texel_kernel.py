"""The kernel that fills an image, or a buffer from images: a work-item a texel, or several.

A texel is four channels of one position; several of a work-item are neighbours (:class:`TexelTile`), so that what one
of them reads is read once for all, as the weights of a convolution are for positions side by side. Those beyond the
tensor's end are computed at the last place that it has, and not written.

A reduction runs through its points once for all of them. Where its axis is the channel of an image that it reads, four
of its points are a step, so that each texel is read once and every component is known; points that are left over
follow, one by one, and no padding is read for them. Channels beyond the last of the tensor are written as 0 to an
image, and not at all to a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import Alloc, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine, loops, neutral, without_reductions
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, numbered
from byoc.codegen.opencl.device.statements import LOCAL_SIZE, KernelWriter, OwnText, WorkItem
from byoc.codegen.opencl.images.coordinates import ImageTensors, static_four, texel_place
from byoc.codegen.opencl.images.reading import BITS, TexelReads, image_writer
from byoc.runtime.opencl.images import CHANNELS
from byoc.te import Index, PrimExpr, Tensor, all_of, binary, const, placeholder
from byoc.te.expr import INDEX, Intrinsic, Reduce, Select, cast
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

SCHEDULE, SEVERAL = "texel", "texels"  # of a work-item
PADDING = 0.0  # what components beyond the last channel are written as; no kernel reads them


@dataclass(frozen=True, eq=False)
class WriteTexel(OwnText):
    """The texel of *image* at column *x* of row *y* becomes the four *values*, float32 scalars or None for padding."""

    image: Tensor
    x: PrimExpr
    y: PrimExpr
    values: Sequence[Tensor | None]

    def write(self, writer: KernelWriter) -> None:
        exprs = image_writer(writer)
        padding = exprs.language.literal(PADDING, "float32")
        texts = [padding if v is None else exprs.names(v, v.name) for v in self.values]
        place = f"(int2)({exprs.text(self.x)}, {exprs.text(self.y)})"
        name = exprs.names(self.image, self.image.name)
        writer.writer.line(f"write_imagef({name}, {place}, (float4)({', '.join(texts)}));")


@dataclass(frozen=True)
class TexelTile:
    """The texels that a work-item fills: *blocks* of four channels, each in *down* rows and *across* columns."""

    blocks: int = 1
    down: int = 1
    across: int = 1

    @property
    def texels(self) -> int:
        """How many these are."""
        return self.blocks * self.down * self.across

    @property
    def schedule(self) -> str:
        """What a kernel with it is called: by channels, rows and columns."""
        return SCHEDULE if self.texels == 1 else f"{SEVERAL}_{CHANNELS * self.blocks}x{self.down}x{self.across}"


@dataclass(frozen=True)
class _Point:
    """A place along an axis, held inside it, and whether it is there; None: always."""

    place: PrimExpr
    inside: PrimExpr | None = None


@dataclass(frozen=True)
class _Lane:
    """A number that a work-item computes: component *number* of block *block* at row and column *spot*.

    *axes* are the indices of the element in the stage, *there* is whether the tensor has its channel; None: always.
    """

    block: int
    number: int
    spot: tuple[_Point, ...]
    axes: tuple[PrimExpr, ...]
    there: PrimExpr | None


def texel_axes(stage: Tensor) -> tuple[Index, Index | None, Index | None]:
    """The axes of *stage* that are its channels, and of those along rows and columns of texels the innermost."""
    axes = stage.axes
    if stage.ndim == 4:
        return axes[1], axes[2], axes[3]
    if stage.ndim == 3:
        return axes[1], axes[0], axes[2]
    return (axes[1], axes[0], None) if stage.ndim == 2 else (axes[0], None, None)


def texel_kernel(
    stage: Tensor,
    images: ImageTensors,
    simplify: Simplifier,
    tile: TexelTile = TexelTile(),
    local: int = LOCAL_SIZE,
) -> KernelPlan:
    """The kernel that fills *stage*, an image where it is among *images*: a *tile* a work-item, groups of *local*."""
    return _TexelKernel(stage, images, simplify, tile).plan(local)


class _TexelKernel:
    def __init__(self, stage: Tensor, images: ImageTensors, simplify: Simplifier, tile: TexelTile):
        self.stage, self.images, self.simplify, self.tile = stage, images, simplify, tile
        self.channels = static_four(stage)[1]
        self.channel, self.row, self.column = texel_axes(stage)
        self.lanes_of_item = CHANNELS * tile.blocks
        self.blocks = -(-self.channels // self.lanes_of_item)
        self.block = Index("block", self.blocks)
        self.is_image = stage in images

    def plan(self, local: int) -> KernelPlan:
        statements: list[Stmt] = []
        rows, row = self._points(self.row, self.tile.down, statements)
        columns, column = self._points(self.column, self.tile.across, statements)
        moved: dict[Index | None, Index] = {self.channel: self.block, self.row: row, self.column: column}
        order = [moved.get(a, a) for a in self.stage.axes]
        if self.stage.ndim == 4:  # in the order of texels, so that neighbours write neighbours
            order = [order[0], order[2], order[1], order[3]]
        item, places = numbered("item", order, self.simplify)
        lanes = self._lanes([(r, c) for r in rows for c in columns], statements)
        code: list[Stmt] = [WorkItem(item, local), *places, *statements]
        values = self._values(lanes, code)
        code += self._to_image(lanes, values) if self.is_image else self._to_buffer(lanes, values)
        return KernelPlan(self.tile.schedule, code, as_index(item.extent), local=local)

    def _points(self, axis: Index | None, size: int, statements: list[Stmt]) -> tuple[list[_Point], Index]:
        """*size* points of *axis*, held inside it by *statements*, and the index of which so many are one step."""
        if axis is None:
            return [_Point(as_index(0))], Index("none", 1)
        if size == 1:
            return [_Point(axis)], axis
        extent = int(axis.extent)
        step = Index(f"{axis.name}_step", -(-extent // size))
        rest = extent - (extent - 1) // size * size  # of the last step
        points = []
        for k in range(size):
            place = binary("add", binary("mul", step, size), k)
            points.append(_Point(place) if k < rest else _held(f"{axis.name}_{k}", place, extent, statements))
        return points, step

    def _lanes(self, spots: Sequence[tuple[_Point, ...]], statements: list[Stmt]) -> list[_Lane]:
        """The elements that a work-item computes; a channel that some texels lack repeats the tensor's last there."""
        rest = self.channels - (self.blocks - 1) * self.lanes_of_item
        channels = []
        for k in range(self.lanes_of_item if self.blocks > 1 else rest):
            place = binary("add", binary("mul", self.block, self.lanes_of_item), k)
            name = f"{self.channel.name}_{k}"
            channels.append(_Point(place) if k < rest else _held(name, place, self.channels, statements))
        return [
            _Lane(k // CHANNELS, k % CHANNELS, spot, self._at(channel.place, spot), channel.inside)
            for spot in spots
            for k, channel in enumerate(channels)
        ]

    def _at(self, channel: PrimExpr, spot: Sequence[_Point]) -> tuple[PrimExpr, ...]:
        row, column = spot
        moved: dict[Index | None, PrimExpr] = {
            self.channel: channel,
            self.row: row.place,
            self.column: column.place,
        }
        return tuple(moved.get(a, a) for a in self.stage.axes)

    def _values(self, lanes: Sequence[_Lane], statements: list[Stmt]) -> list[PrimExpr]:
        """What each lane stores, after the *statements* that it is made of."""
        found = [n for n in unique_nodes(self.stage.element) if isinstance(n, Reduce)]
        if len(found) == 1 and not found[0].kind.startswith("arg"):
            values = self._reduced(found[0], lanes, statements)
        else:
            values = []
            for lane in lanes:
                code, value = without_reductions(self._of_lane(self.stage.element, lane))
                statements += code
                values.append(value)
        reads = TexelReads(self.images, self.simplify)
        stored = [reads.of(self._number(value) if self.is_image else value) for value in values]
        statements += reads.statements
        return stored

    def _to_image(self, lanes: Sequence[_Lane], values: Sequence[PrimExpr]) -> list[Stmt]:
        """The texels, with padding for what the tensor does not have."""
        texels: dict[tuple[tuple[_Point, ...], int], list[tuple[_Lane, PrimExpr]]] = {}
        for lane, value in zip(lanes, values, strict=True):
            texels.setdefault((lane.spot, lane.block), []).append((lane, value))
        statements: list[Stmt] = []
        for (spot, block), own in texels.items():
            filled: list[Stmt] = []
            results: list[Tensor | None] = [None] * CHANNELS
            for lane, value in own:
                number = value if lane.there is None else Select(lane.there, value, const(PADDING, "float32"))
                result = results[lane.number] = placeholder((), "float32", f"out{lane.number}")
                filled.append(Alloc(result, number))
            first = binary("add", binary("mul", self.block, self.lanes_of_item), CHANNELS * block)
            place = texel_place(self.stage, self._at(first, spot), self.simplify)
            filled.append(WriteTexel(self.stage, place.x, place.y, results))
            exists = own[0][0].there if block else None  # a work-item has at least its first block
            statements += _where([*(p.inside for p in spot), exists], filled)
        return statements

    def _to_buffer(self, lanes: Sequence[_Lane], values: Sequence[PrimExpr]) -> list[Stmt]:
        """The elements that the tensor has."""
        statements: list[Stmt] = []
        for lane, value in zip(lanes, values, strict=True):
            store = Store(self.stage, lane.axes, value)
            statements += _where([*(p.inside for p in lane.spot), lane.there], [store])
        return statements

    def _of_lane(self, value: PrimExpr, lane: _Lane) -> PrimExpr:
        return substitute_axes(value, self.stage.axes, lane.axes)

    def _number(self, value: PrimExpr) -> PrimExpr:
        """*value* as the float32 that is written."""
        return Intrinsic("from_float16", [value]) if self.stage.dtype == BITS else cast("float32", value)

    def _reduced(self, reduce: Reduce, lanes: Sequence[_Lane], statements: list[Stmt]) -> list[PrimExpr]:
        """The value of each lane over its accumulator, which *statements* fill in loops that all lanes share."""
        accs = [placeholder((), reduce.dtype, f"acc{k}") for k in range(len(lanes))]
        statements += [Alloc(acc, neutral(reduce.kind, acc.dtype)) for acc in accs]
        bodies = [self._of_lane(reduce.body, lane) for lane in lanes]
        split = self._channel_axis(reduce, bodies[0])
        if split is None:
            statements += self._folds(reduce, accs, bodies, reduce.axes, [])
        else:
            statements += self._in_fours(reduce, accs, bodies, *split)
        return [
            self._of_lane(_replaced(self.stage.element, reduce, acc), lane)
            for acc, lane in zip(accs, lanes, strict=True)
        ]

    def _in_fours(
        self, reduce: Reduce, accs: Sequence[Tensor], bodies: Sequence[PrimExpr], axis: Index, extent: int
    ) -> list[Stmt]:
        """The loops with four points of *axis* a step, then those over the points of *extent* that are left."""
        fours = extent // CHANNELS
        statements: list[Stmt] = []
        if fours:
            step = Index(axis.name, fours)
            axes = [step if a is axis else a for a in reduce.axes]
            places = [binary("add", binary("mul", step, CHANNELS), k) for k in range(CHANNELS)]
            statements += self._folds(reduce, accs, bodies, axes, [(axis, p) for p in places])
        if extent % CHANNELS:
            axes = [a for a in reduce.axes if a is not axis]
            rest = [(axis, as_index(k)) for k in range(fours * CHANNELS, extent)]
            statements += self._folds(reduce, accs, bodies, axes, rest)
        return statements

    def _folds(
        self,
        reduce: Reduce,
        accs: Sequence[Tensor],
        bodies: Sequence[PrimExpr],
        axes: Sequence[Index],
        points: Sequence[tuple[Index, PrimExpr]],
    ) -> list[Stmt]:
        """Loops over *axes* that add every body to its accumulator, at each of *points* where there are some."""
        reads = TexelReads(self.images, self.simplify)
        stores: list[Stmt] = []
        terms = [[substitute_axes(b, [a], [p]) for b in bodies] for a, p in points] or [list(bodies)]
        for values in terms:
            for acc, value in zip(accs, values, strict=True):
                stores.append(Store(acc, (), combine(reduce.kind, acc[()], reads.of(value))))
        return loops(axes, [*reads.statements, *stores])

    def _channel_axis(self, reduce: Reduce, body: PrimExpr) -> tuple[Index, int] | None:
        """The axis of *reduce* of which four points a step make most components known, and its extent, if any does."""
        best, most = None, self._known(body)
        for axis in reduce.axes:
            if not isinstance(axis.extent, int):
                continue
            step = Index(axis.name, max(axis.extent // CHANNELS, 1))
            known = self._known(substitute_axes(body, [axis], [binary("mul", step, CHANNELS)]))
            if known > most:
                best, most = (axis, axis.extent), known
        return best

    def _known(self, body: PrimExpr) -> int:
        loads = [n for n in unique_nodes(body) if isinstance(n, Load) and n.tensor in self.images]
        return sum(texel_place(n.tensor, n.indices, self.simplify).known is not None for n in loads)


def _replaced(value: PrimExpr, reduce: Reduce, result: Tensor) -> PrimExpr:
    """*value* with the local *result* in the place of *reduce*."""
    return map_expr(value, lambda e: result[()] if e is reduce else None)


def _held(name: str, place: PrimExpr, extent: int, statements: list[Stmt]) -> _Point:
    """*place*, or the last of *extent* where it lies beyond, as the variable *name* that *statements* declare."""
    held, inside = Index(name, extent), binary("lt", place, extent)
    statements.append(LetStmt(held, Select(inside, place, const(extent - 1, INDEX))))
    return _Point(held, inside)


def _where(conditions: Sequence[PrimExpr | None], body: Sequence[Stmt]) -> Sequence[Stmt]:
    """*body* where all *conditions* hold, of which None does anyway."""
    real = [c for c in conditions if c is not None]
    return [IfThenElse(all_of(*real), body)] if real else body
