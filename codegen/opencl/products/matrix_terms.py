"""The terms of a sum in steps of matrix units: which of them a chunk has, and where memory has a chunk as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.inline import substitute_axes
from byoc.codegen.kernel.loops import LetStmt, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import product
from byoc.codegen.opencl.products.matrix_format import MatrixFormat
from byoc.codegen.opencl.products.shape import Operand, guarded
from byoc.codegen.opencl.products.tiled import axes_at
from byoc.te import Index, PrimExpr, binary
from byoc.te.expr import Cast, Const, Intrinsic
from byoc.te.tensor import Load
from byoc.te.walk import mentions

LINES, CHUNKWISE, SINGLE = "lines", "chunks", "terms"


def number_in_memory(value: PrimExpr, format: MatrixFormat) -> PrimExpr | None:
    """What *value*, a float32, is made of where that is a number of *format* as memory has it, typed or as bits."""
    if isinstance(value, Cast) and value.value.dtype == format.name:
        return value.value
    if isinstance(value, Intrinsic) and value.name == f"from_{format.name}":
        return value.args[0]
    return None


@dataclass(frozen=True)
class ChunkTerms:
    """The terms of one chunk in one step: *before* declares what *indices* (of every axis, term by term) say.

    *inside* says of each term whether it exists, None where it always does.
    """

    before: tuple[Stmt, ...]
    indices: tuple[tuple[PrimExpr, ...], ...]
    inside: tuple[PrimExpr | None, ...]


@dataclass(frozen=True)
class Terms:
    """The *axes* of a sum in the order in which steps go over them.

    *kind* says what lies side by side along the axis *inner*: a whole step (lines), a chunk, or nothing for sure.
    """

    axes: tuple[Index, ...]
    inner: Index
    kind: str
    format: MatrixFormat
    points: int
    count: PrimExpr

    @staticmethod
    def of(axes: Sequence[Index], format: MatrixFormat, points: int, simplify: Simplifier) -> Terms:
        """Those of a sum over *axes*, in a format, of which a step has so many *points*."""
        count = simplify(product([a.extent for a in axes]))
        kind, inner = SINGLE, axes[-1]
        if all(isinstance(a.extent, int) for a in axes):
            inner = max(axes, key=lambda a: int(a.extent))
            extent = int(inner.extent)
            kind = LINES if extent % points == 0 else CHUNKWISE if extent % format.chunk == 0 else SINGLE
        return Terms(tuple(axes), inner, kind, format, points, count)

    @property
    def whole_steps(self) -> bool:
        """Whether the last step has all its terms."""
        return isinstance(self.count, Const) and int(self.count.value) % self.points == 0

    def at(self, step: PrimExpr, number: PrimExpr, name: str) -> ChunkTerms:
        """The terms of chunk *number* of *step*; *name* is in the names of what is declared for them."""
        if self.kind == SINGLE:
            return self._one_by_one(step, number, name)
        length = self.points if self.kind == LINES else self.format.chunk
        chunks = self.points // self.format.chunk
        table = {a: Index(f"{a.name}_{name}", a.extent) for a in self.axes if a is not self.inner}
        outer = Index(f"{self.inner.name}_{name}", int(self.inner.extent) // length)
        order = [outer, *table.values()] if self.kind == LINES else [*table.values(), outer]
        flat = Index(f"terms_{name}", product([a.extent for a in order]) + chunks)  # beyond the last, too
        place, base = step, outer * length + number * self.format.chunk
        if self.kind == CHUNKWISE:
            place, base = step * chunks + number, outer * length
        before = (LetStmt(flat, place), *axes_at(flat, order))
        guard = None if self.whole_steps else binary("lt", flat, self.count // self.format.chunk)
        indices = [
            tuple(base + j if a is self.inner else table[a] for a in self.axes) for j in range(self.format.chunk)
        ]
        return ChunkTerms(before, tuple(indices), (guard,) * len(indices))

    def _one_by_one(self, step: PrimExpr, number: PrimExpr, name: str) -> ChunkTerms:
        first = step * self.points + number * self.format.chunk
        before: list[Stmt] = []
        indices: list[tuple[PrimExpr, ...]] = []
        inside: list[PrimExpr | None] = []
        for j in range(self.format.chunk):
            flat = Index(f"term_{name}_{j}", self.count + self.points)
            own = tuple(Index(f"{a.name}_{name}_{j}", a.extent) for a in self.axes)
            before += [LetStmt(flat, first + j), *axes_at(flat, own)]
            indices.append(own)
            inside.append(None if self.whole_steps else binary("lt", flat, self.count))
        return ChunkTerms(tuple(before), tuple(indices), tuple(inside))


@dataclass(frozen=True)
class DirectLoad:
    """A chunk that memory has side by side: *load* is that of its first term, where *guards* hold; else it is 0.

    *raw*: memory has the format's numbers.
    """

    load: Load
    guards: tuple[PrimExpr, ...]
    raw: bool

    @staticmethod
    def of(operand: Operand, terms: Terms, simplify: Simplifier) -> DirectLoad | None:
        """That of every chunk of *operand*; None where some are not side by side, or not where a vector may begin."""
        if terms.kind == SINGLE:
            return None
        guards, value = guarded(operand.value)
        inside = number_in_memory(value, terms.format)
        raw = inside is not None
        load = value if inside is None else inside
        if not isinstance(load, Load) or load.is_word or (not raw and load.tensor.dtype != "float32"):
            return None
        if any(mentions(g, terms.inner) for g in guards):
            return None
        place = simplify.flat_index(load.tensor, load.indices)
        at_zero = [substitute_axes(i, [terms.inner], [as_index(0)]) for i in load.indices]
        rest = simplify.flat_index(load.tensor, at_zero)
        width = terms.format.chunk if raw else 4
        if place.coefficient(terms.inner) != 1 or any(n % width for n in (rest.constant, *rest.terms.values())):
            return None
        return DirectLoad(load, tuple(guards), raw)

    def over(self, old: Sequence[Index], new: Sequence[PrimExpr]) -> DirectLoad:
        """The same of other axes."""
        indices = [substitute_axes(i, old, new) for i in self.load.indices]
        guards = tuple(substitute_axes(g, old, new) for g in self.guards)
        return DirectLoad(self.load.of(self.load.tensor, indices), guards, self.raw)


def can_be_copied(operand: Operand, terms: Terms, simplify: Simplifier) -> bool:
    """Whether local memory may have the chunks of *operand* as memory has them: words that a unit reads."""
    direct = DirectLoad.of(operand, terms, simplify)
    return direct is not None and (direct.raw or terms.format.bits == 32)
