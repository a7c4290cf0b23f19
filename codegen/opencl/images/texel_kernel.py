"""The kernel that fills an image, or a buffer from images: a work-item a texel, four channels of one position.

A reduction runs through its points once for all four. Where its axis is the channel of an image that it reads, four of
its points are a step, so that each texel is read once and every component is known; points that are left over follow,
one by one, and no padding is read for them. Channels beyond the last of the tensor are written as 0 to an image, and
not at all to a buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import Alloc, IfThenElse, LetStmt, Stmt, Store
from byoc.codegen.kernel.reductions import combine, loops, neutral, without_reductions
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, numbered
from byoc.codegen.opencl.device.statements import KernelWriter, OwnText, WorkItem
from byoc.codegen.opencl.images.coordinates import ImageTensors, static_four, texel_place
from byoc.codegen.opencl.images.reading import BITS, TexelReads, image_writer
from byoc.runtime.opencl.images import CHANNELS
from byoc.te import Index, PrimExpr, Tensor, binary, const, placeholder
from byoc.te.expr import INDEX, Intrinsic, Reduce, Select, cast
from byoc.te.tensor import Load
from byoc.te.walk import map_expr, unique_nodes

SCHEDULE = "texel"
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
class _Lane:
    """One of the four channels of a texel: its number, the channel of the tensor, and whether it is there always."""

    number: int
    channel: PrimExpr
    always: bool


def texel_kernel(stage: Tensor, images: ImageTensors, simplify: Simplifier) -> KernelPlan:
    """The kernel that fills *stage*, an image where it is among *images*."""
    return _TexelKernel(stage, images, simplify).plan()


class _TexelKernel:
    def __init__(self, stage: Tensor, images: ImageTensors, simplify: Simplifier):
        self.stage, self.images, self.simplify = stage, images, simplify
        self.channels = static_four(stage)[1]
        self.position = 0 if stage.ndim == 1 else 1
        self.channel = stage.axes[self.position]
        self.blocks = -(-self.channels // CHANNELS)
        self.block = Index("block", self.blocks)
        self.is_image = stage in images

    def plan(self) -> KernelPlan:
        axes = self.stage.axes
        if self.stage.ndim == 4:  # in the order of texels, so that neighbours write neighbours
            order = [axes[0], axes[2], self.block, axes[3]]
        else:
            order = [self.block if a is self.channel else a for a in axes]
        item, places = numbered("item", order, self.simplify)
        statements: list[Stmt] = [WorkItem(item), *places]
        lanes = self._lanes(statements)
        values = self._values(lanes, statements)
        statements += self._to_image(lanes, values) if self.is_image else self._to_buffer(lanes, values)
        return KernelPlan(SCHEDULE, statements, as_index(item.extent))

    def _at(self, channel: PrimExpr) -> tuple[PrimExpr, ...]:
        return tuple(channel if a is self.channel else a for a in self.stage.axes)

    def _lanes(self, statements: list[Stmt]) -> list[_Lane]:
        """The channels that a work-item computes; one that some texels lack repeats the last of the tensor there."""
        rest = self.channels - (self.blocks - 1) * CHANNELS
        lanes = []
        for k in range(CHANNELS if self.blocks > 1 else rest):
            place = binary("add", binary("mul", self.block, CHANNELS), k)
            if k >= rest:
                held = Index(f"{self.channel.name}_{k}", self.channels)
                inside = binary("lt", place, self.channels)
                statements.append(LetStmt(held, Select(inside, place, const(self.channels - 1, INDEX))))
                lanes.append(_Lane(k, held, False))
            else:
                lanes.append(_Lane(k, place, True))
        return lanes

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

    def _inside(self, lane: _Lane) -> PrimExpr:
        """Whether the tensor has the channel of *lane*."""
        place = binary("add", binary("mul", self.block, CHANNELS), lane.number)
        return binary("lt", place, self.channels)

    def _to_image(self, lanes: Sequence[_Lane], values: Sequence[PrimExpr]) -> list[Stmt]:
        """The texel, with padding for what the tensor does not have."""
        statements: list[Stmt] = []
        results: list[Tensor | None] = [None] * CHANNELS
        for lane, value in zip(lanes, values, strict=True):
            number = value if lane.always else Select(self._inside(lane), value, const(PADDING, "float32"))
            result = results[lane.number] = placeholder((), "float32", f"out{lane.number}")
            statements.append(Alloc(result, number))
        texel = texel_place(self.stage, self._at(lanes[0].channel), self.simplify)
        return [*statements, WriteTexel(self.stage, texel.x, texel.y, results)]

    def _to_buffer(self, lanes: Sequence[_Lane], values: Sequence[PrimExpr]) -> list[Stmt]:
        """The elements that the tensor has."""
        stores = [Store(self.stage, self._at(lane.channel), v) for lane, v in zip(lanes, values, strict=True)]
        return [
            store if lane.always else IfThenElse(self._inside(lane), [store])
            for lane, store in zip(lanes, stores, strict=True)
        ]

    def _of_lane(self, value: PrimExpr, lane: _Lane) -> PrimExpr:
        return substitute_axes(value, [self.channel], [lane.channel])

    def _number(self, value: PrimExpr) -> PrimExpr:
        """*value* as the float32 that is written."""
        return Intrinsic("from_float16", [value]) if self.stage.dtype == BITS else cast("float32", value)

    def _reduced(self, reduce: Reduce, lanes: Sequence[_Lane], statements: list[Stmt]) -> list[PrimExpr]:
        """The value of each lane over its accumulator, which *statements* fill in loops that all lanes share."""
        accs = [placeholder((), reduce.dtype, f"acc{lane.number}") for lane in lanes]
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
