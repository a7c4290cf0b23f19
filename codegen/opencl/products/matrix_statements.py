"""What kernels with matrix units have beyond loops: chunks on their way to local memory, and the products of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.opencl.device.statements import KernelWriter, OwnText
from byoc.codegen.opencl.products.matrix_format import CHUNK, EMULATED, PTX, ROWS, TF32, WARP, MatrixFormat
from byoc.codegen.opencl.products.matrix_terms import DirectLoad
from byoc.codegen.opencl.products.matrix_tile import MatrixTile
from byoc.codegen.opencl.products.warpgroup import WARPGROUP, warpgroup_call
from byoc.runtime.opencl.drivers.newer_ptx import MACRO
from byoc.te import Index, PrimExpr, Tensor

PAIRED = ("float32", "float16", "uint16")  # of which two are stored as a vector: numbers, or codes of halves
FUNCTIONS = {PTX: "matrix_ptx", EMULATED: "matrix_plain"}  # helpers, by how units are reached


def vectors_of(format: MatrixFormat, direct: DirectLoad) -> int:
    """How many registers of 16 bytes a chunk takes as memory has it."""
    return 1 if direct.raw else format.chunk // 4


@dataclass(frozen=True, eq=False)
class VectorRegisters(OwnText):
    """Declare *registers*, of 16 bytes each, for a chunk that memory has side by side."""

    registers: Sequence[Tensor]
    raw: bool

    def write(self, writer: KernelWriter) -> None:
        names = ", ".join(writer.exprs.names(r, r.name) for r in self.registers)
        writer.writer.line(f"{'uint4' if self.raw else 'float4'} {names};")


@dataclass(frozen=True, eq=False)
class VectorLoad(OwnText):
    """*registers* become the neighbours in memory from that of *direct* on, 0 where *guards* do not hold."""

    registers: Sequence[Tensor]
    direct: DirectLoad
    guards: Sequence[PrimExpr]

    def write(self, writer: KernelWriter) -> None:
        kind = "uint4" if self.direct.raw else "float4"
        place = writer.exprs.element(self.direct.load.tensor, tuple(self.direct.load.indices))
        whether = " && ".join(writer.exprs.text(writer.exprs.simplify(g), 11) for g in self.guards)
        for k, register in enumerate(self.registers):
            vector = f"((__global const {kind} *)&{place})[{k}]"
            value = f"{whether} ? {vector} : ({kind})(0)" if whether else vector
            writer.writer.line(f"{writer.exprs.names(register, register.name)} = {value};")


@dataclass(frozen=True, eq=False)
class ChunkToLocal(OwnText):
    """The numbers in *registers* go to local memory: to a side, a lane and a number of *target*."""

    target: Tensor
    place: tuple[PrimExpr, PrimExpr, PrimExpr]
    registers: Sequence[Tensor]
    tile: MatrixTile
    units: str
    direct: DirectLoad | None

    def write(self, writer: KernelWriter) -> None:
        format = self.tile.format
        writer.exprs.helpers.setdefault((FUNCTIONS[self.units], format.short))
        names = [writer.exprs.names(r, r.name) for r in self.registers]
        if self.direct is None or not self.direct.raw:
            numbers = names if self.direct is None else [f"{n}.s{k}" for n in names for k in range(4)]
            vector = f"(uint4)({', '.join(format.word(numbers) for _ in range(CHUNK))})"
        else:
            (vector,) = names
        writer.writer.line(f"*(__local uint4 *)&{chunk_place(writer, self.target, self.place, self.tile)} = {vector};")


def chunk_place(
    writer: KernelWriter, target: Tensor, place: tuple[PrimExpr, PrimExpr, PrimExpr], tile: MatrixTile
) -> str:
    """The first word of a chunk, by the side, the lane and the number that *place* is, of *target*."""
    exprs, length = writer.exprs, tile.line
    side, lane, number = (exprs.text(exprs.simplify(e), 13) for e in place)
    chunk = f"({number} ^ {tile.turned(lane)})" if tile.exchanged else number
    array = exprs.names(target, target.name)
    return f"{array}[{side} * {int(target.shape[1]) * length} + {lane} * {length} + {chunk} * {CHUNK}]"


@dataclass(frozen=True, eq=False)
class SeeStored(OwnText):
    """The instructions of a warpgroup see what this work-item brought to local memory."""

    units: str

    def write(self, writer: KernelWriter) -> None:
        if self.units == PTX:
            writer.exprs.helpers.setdefault(("see_stored", self.units))
            writer.writer.line("see_stored();")


@dataclass(frozen=True, eq=False)
class MatrixStep(OwnText):
    """*sums* of each work-item grow by the products of a step, which *side* of *left* and *right* has."""

    sums: Tensor
    left: Tensor
    right: Tensor
    side: PrimExpr
    item: Index
    tile: MatrixTile
    units: str

    def write(self, writer: KernelWriter) -> None:
        writer.exprs.helpers.setdefault((FUNCTIONS[self.units], self.tile.format.short))
        if self.units == PTX:
            self._instructions(writer)
        else:
            self._plain(writer)

    def _lines(self, writer: KernelWriter, at_left: str, at_right: str) -> tuple[str, str]:
        """Pointers to the words of this work-item in the lines of its warp."""
        tile, names, length = self.tile, writer.exprs.names, self.tile.line
        item, side = writer.index(self.item), writer.exprs.text(writer.exprs.simplify(self.side), 13)
        found = []
        parts = (
            (self.left, tile.rows, f"{item} / {WARP} / {tile.across} * {tile.rows // tile.down}", at_left),
            (self.right, tile.columns, f"{item} / {WARP} % {tile.across} * {tile.columns // tile.across}", at_right),
        )
        for tensor, lanes, first, own in parts:
            name = names.fresh(f"{tensor.name}_line")
            array = names(tensor, tensor.name)
            place = f"{side} * {lanes * length} + {first} * {length} + {own}"
            writer.writer.line(f"__local const uint *{name} = &{array}[{place}];")
            found.append(name)
        return found[0], found[1]

    def _instructions(self, writer: KernelWriter) -> None:
        """Each work-item says where one line of 16 bytes is, of four matrices of eight lines."""
        tile, names, line = self.tile, writer.exprs.names, writer.writer.line
        item, sums = writer.index(self.item), names(self.sums, self.sums.name)
        half, length = f"{item} / 8 % 2", tile.line
        if tile.warpgroups:
            line(f"#ifdef {MACRO}")
            self._of_warpgroup(writer, item, sums)
            line("#else")
        left, right = self._lines(
            writer, f"({item} % 8 + {half} * 8) * {length}", f"({item} % 8 + {item} / 16 % 2 * 8) * {length}"
        )
        base = "tf32" if tile.format.split else tile.format.name
        load = "load_matrices({})"
        if tile.copied and tile.format == TF32:
            writer.exprs.helpers.setdefault(("matrix_rounded", base))
            load = "rounded_tf32(load_matrices({}))"
        for words in range(0, tile.words, 8):
            with writer.writer.block("{"):
                at_left = self._chunk_at(words // CHUNK, f"{item} / 16 % 2", f"{item}")
                at_right = self._chunk_at(words // CHUNK, half, f"{item}")
                for k in range(tile.high):
                    line(f"const uint4 a{k} = {load.format(f'{left} + {k * 16 * length} + {at_left}')};")
                for k in range(tile.wide // 2):
                    line(f"const uint4 b{k} = {load.format(f'{right} + {k * 16 * length} + {at_right}')};")
                if not tile.format.split:
                    self._multiply(writer, base, sums, "a", "b")
                    continue
                for name, count in (("a", tile.high), ("b", tile.wide // 2)):
                    for k in range(count):
                        for part in ("high", "low"):
                            of = ", ".join(f"{part}_tf32({name}{k}.s{n})" for n in range(4))
                            line(f"const uint4 {part}_{name}{k} = (uint4)({of});")
                for one, other in (("low_a", "high_b"), ("high_a", "low_b"), ("high_a", "high_b")):
                    self._multiply(writer, base, sums, one, other)
        if tile.warpgroups:
            line("#endif")

    def _of_warpgroup(self, writer: KernelWriter, item: str, sums: str) -> None:
        """Four warps say where the first of their 64 lanes is, and where the columns begin."""
        tile, names, lanes = self.tile, writer.exprs.names, WARPGROUP * ROWS
        call = warpgroup_call(tile)
        writer.exprs.helpers.setdefault(("matrix_warpgroup", call))
        side = writer.exprs.text(writer.exprs.simplify(self.side), 13)
        left, right = names(self.left, self.left.name), names(self.right, self.right.name)
        rows = f"&{left}[{side} * {tile.rows * tile.line} + {item} / {WARPGROUP * WARP} * {lanes * tile.line}]"
        columns = f"&{right}[{side} * {tile.columns * tile.line}]"
        writer.writer.line(f"multiply_{call}({sums}, lines_{call}({rows}), lines_{call}({columns}));")

    def _chunk_at(self, first: int, next_: str, lane: str) -> str:
        """The words before chunk *first*, or the *next_* one, of a line whose lane of eight is that of *lane*."""
        if not self.tile.exchanged:
            return f"{first * CHUNK} + {next_} * {CHUNK}"
        return f"(({first} + {next_}) ^ {self.tile.turned(lane)}) * {CHUNK}"

    def _multiply(self, writer: KernelWriter, base: str, sums: str, left: str, right: str) -> None:
        for i in range(self.tile.high):
            for j in range(self.tile.wide):
                first = 2 * (j % 2)
                b = f"{right}{j // 2}.s{first}, {right}{j // 2}.s{first + 1}"
                at = 4 * (i * self.tile.wide + j)
                writer.writer.line(f"multiply_{base}({sums} + {at}, {left}{i}, {b});")

    def _plain(self, writer: KernelWriter) -> None:
        """The same sums by the same work-items, from the lines of local memory as they are."""
        tile, names = self.tile, writer.exprs.names
        item, sums = writer.index(self.item), names(self.sums, self.sums.name)
        length = tile.line
        left, right = self._lines(writer, f"{item} % {WARP} / 4 * {length}", f"{item} % 4 * {2 * length}")
        k = names.fresh("k")
        with writer.writer.block(f"for (int {k} = 0; {k} < {4 * tile.high * tile.wide}; ++{k}) {{"):
            row = f"({k} / {4 * tile.wide} * 16 + {k} / 2 % 2 * 8) * {length}"
            column = f"({k} / 4 % {tile.wide} * 8 + {k} % 2) * {length}"
            turns = "0, 0"
            if tile.exchanged:
                lanes = f"({item} % {WARP} / 4)", f"({item} % 4 * 2 + {k} % 2)"
                turns = ", ".join(f"({tile.turned(lane)}) * {CHUNK}" for lane in lanes)
            call = f"dot_{tile.format.short}({sums}[{k}], {left} + {row}, {right} + {column}, {tile.words}, {turns})"
            writer.writer.line(f"{sums}[{k}] = {call};")
