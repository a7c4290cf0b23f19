"""The kernel of a product with matrix units whose operands memory has as the units take them.

Chunks go from memory to local memory without registers, several steps ahead of their own: on NVIDIA's devices by
``cp.async``, which the work-item does not wait for (PTX ISA 7.0). Lines have no pad; their chunks are exchanged instead
so that eight lanes of an instruction lie in different banks, and local memory has a side for each step on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.kernel.loops import For, IfThenElse, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, Range
from byoc.codegen.opencl.device.statements import GroupBarrier, KernelWriter, OwnText
from byoc.codegen.opencl.products.matrix_format import PTX
from byoc.codegen.opencl.products.matrix_kernel import Chunk, Chunks, MatrixKernel
from byoc.codegen.opencl.products.matrix_statements import SeeStored, chunk_place
from byoc.codegen.opencl.products.matrix_terms import ChunkTerms, DirectLoad
from byoc.codegen.opencl.products.matrix_tile import MatrixTile
from byoc.codegen.opencl.products.shape import BlockProduct
from byoc.te import Index, PrimExpr, Tensor, binary
from byoc.te.expr import Const


def copying_kernel(
    p: BlockProduct, tile: MatrixTile, simplify: Simplifier, units: str, when: tuple[Range, ...] = ()
) -> KernelPlan:
    """The kernel that computes *p* by a *tile* that is copied, for calls in which all of *when* holds."""
    return _CopyingKernel(p, tile, simplify, units).plan(when)


class _CopyingKernel(MatrixKernel):
    def steps_of(self, chunks: Chunks) -> Sequence[Stmt]:
        steps, tile = self.steps, self.tile
        known = int(steps.value) if isinstance(steps, Const) else None
        first: list[Stmt] = []
        for k in range(tile.ahead):
            own = self._copies(chunks, as_index(k), as_index(k))
            if known is None and k:
                own = [IfThenElse(binary("lt", k, steps), own)]
            first += [*(own if known is None or k < known else []), Commit(self.units)]
        step = Index("step", steps)
        later = step + tile.ahead
        side, free = (Index(name, tile.sides) for name in ("side", "free_side"))
        follows = IfThenElse(binary("lt", later, steps), self._copies(chunks, later, free))
        body: list[Stmt] = [WaitForCopies(tile.ahead - 1, self.units)]
        body += [SeeStored(self.units)] if tile.warpgroups else []
        body += [GroupBarrier()]
        if known is None or known > tile.ahead:
            body += [follows]
        body += [Commit(self.units), self.multiply(side), NextSide(side), NextSide(free)]
        return [*first, FirstSide(side, 0), FirstSide(free, tile.ahead), For(step, steps, body)]

    def _copies(self, chunks: Chunks, step: PrimExpr, side: PrimExpr) -> list[Stmt]:
        """The chunks of both operands at *step* begin to go to a *side* of local memory."""
        known: dict[tuple[Tensor, int], ChunkTerms] = {}
        statements: list[Stmt] = []
        for tensor, own in chunks.items():
            for chunk in own:
                key = tensor, chunk.key
                if key not in known:
                    name = f"{tensor.name[0]}{chunk.key}_{step.value if isinstance(step, Const) else 'later'}"
                    known[key] = self.all_terms.at(step, chunk.number, name)
                    statements += known[key].before
                statements.append(self._copy(tensor, side, chunk, known[key]))
        return statements

    def _copy(self, target: Tensor, side: PrimExpr, chunk: Chunk, terms: ChunkTerms) -> Stmt:
        assert chunk.direct is not None, "a product whose operands cannot be copied has no such tile"
        direct = chunk.direct.over(self.p.reduce.axes, terms.indices[0])
        inside = [] if terms.inside[0] is None else [terms.inside[0]]
        place = (side, chunk.line, chunk.number)
        return CopyChunk(target, place, direct, (*inside, *direct.guards), self.tile, self.units)


@dataclass(frozen=True, eq=False)
class CopyChunk(OwnText):
    """The chunk that *direct* begins goes to a side, a lane and a number of *target*; 0 where *guards* do not hold."""

    target: Tensor
    place: tuple[PrimExpr, PrimExpr, PrimExpr]
    direct: DirectLoad
    guards: Sequence[PrimExpr]
    tile: MatrixTile
    units: str

    def write(self, writer: KernelWriter) -> None:
        exprs, line = writer.exprs, writer.writer.line
        to = f"&{chunk_place(writer, self.target, self.place, self.tile)}"
        source = f"&{exprs.element(self.direct.load.tensor, tuple(self.direct.load.indices))}"
        whether = " && ".join(exprs.text(exprs.simplify(g), 11) for g in self.guards) or "1"
        exprs.helpers.setdefault(("matrix_copies", self.units))
        line(f"copy_chunk({to}, (__global const uint *){source}, {whether});")


@dataclass(frozen=True, eq=False)
class Commit(OwnText):
    """The copies that were begun since the last one are a step's."""

    units: str

    def write(self, writer: KernelWriter) -> None:
        if self.units == PTX:
            writer.writer.line('asm volatile("cp.async.commit_group;" ::: "memory");')


@dataclass(frozen=True, eq=False)
class WaitForCopies(OwnText):
    """This work-item's copies are done, but for those of the last *steps* that were committed."""

    steps: int
    units: str

    def write(self, writer: KernelWriter) -> None:
        if self.units == PTX:
            writer.writer.line(f'asm volatile("cp.async.wait_group {self.steps};" ::: "memory");')


@dataclass(frozen=True, eq=False)
class FirstSide(OwnText):
    """Declare *side* of local memory, which is number *first* until :class:`NextSide`."""

    side: Index
    first: int

    def write(self, writer: KernelWriter) -> None:
        writer.writer.line(f"int {writer.index(self.side)} = {self.first};")


@dataclass(frozen=True, eq=False)
class NextSide(OwnText):
    """*side* is the one behind it, or the first again: without the division of a modulo."""

    side: Index

    def write(self, writer: KernelWriter) -> None:
        name = writer.index(self.side)
        writer.writer.line(f"{name} = {name} == {int(self.side.extent) - 1} ? 0 : {name} + 1;")
