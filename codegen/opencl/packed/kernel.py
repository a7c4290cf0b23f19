"""The kernel of a product whose operands are packed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from byoc.codegen.kernel.collapse import Nest, collapse_axes
from byoc.codegen.kernel.expr_parts import reduces_in
from byoc.codegen.kernel.loops import Alloc, Stmt
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.opencl.device.kernel_plan import KernelPlan, OwnKernel, unravel
from byoc.codegen.opencl.device.statements import KernelWriter, LocalArray, LocalItem, OwnText, WorkGroup
from byoc.codegen.opencl.packed.layout import BLOCK, CHUNKS, INSTRUCTIONS, LEFT_WORDS, RIGHT_WORDS, WORDS
from byoc.codegen.opencl.products.matrix_format import CHUNK, PTX, ROWS, TF32, WARP, MatrixFormat
from byoc.codegen.opencl.products.matrix_kernel import MatrixKernel
from byoc.codegen.opencl.products.matrix_statements import FUNCTIONS
from byoc.codegen.opencl.products.matrix_tile import MatrixTile
from byoc.codegen.opencl.products.shape import BlockProduct, Operand, factors_of
from byoc.codegen.opencl.products.tile import Pace
from byoc.runtime.opencl.drivers.newer_ptx import MACRO
from byoc.te import PrimExpr, Tensor, const
from byoc.te.tensor import Load
from byoc.te.walk import unique_nodes

TILE_BYTES = 4 * RIGHT_WORDS
ITEMS = 256


@dataclass(frozen=True)
class _Names:
    """What variables of a kernel are called, and how many steps it has."""

    item: str
    sums: str
    left: str
    tiles: str
    right: str
    steps: int


def packed_tile(format: MatrixFormat) -> MatrixTile:
    """The tile that a group computes: two warpgroups, a step on its way while another is multiplied."""
    return MatrixTile(BLOCK, BLOCK, ITEMS // WARP, 1, WORDS, 1, format, copied=True, warpgroups=True)


def packed_pace(format: MatrixFormat) -> Pace:
    """What a step takes, relative to the paces of other tiles (``matrix_tile.py``): by 4096 cubed on an H200, warm.

    There float16 takes 226 microseconds by packed operands, and 276 by the best tiles of others; tf32 420 and 514.
    """
    return Pace(1.0, 0.423) if format.bits == 32 else Pace(1.1, 0.455)


@dataclass(frozen=True)
class PackedProduct(OwnKernel):
    """Sums of products of packed operands, in *format*, with what is done with each of them."""

    format: MatrixFormat
    units: str

    def kernel(self, stage: Tensor, simplify: Simplifier) -> KernelPlan:
        """That of *stage*, whose two last axes that move are rows and columns."""
        nest = collapse_axes(stage, simplify)
        return _PackedKernel(_product_of(nest), packed_tile(self.format), simplify, self.units).plan(())


def _product_of(nest: Nest) -> BlockProduct:
    (reduce,) = reduces_in(nest.value)
    row, column = (a for a in nest.axes if a.extent != 1)
    factors = factors_of(reduce.body)
    assert factors is not None
    left, right = factors if row in list(unique_nodes(factors[0])) else factors[::-1]
    return BlockProduct(nest, reduce, Operand(left, (row,), False), Operand(right, (column,), False), ())


def _packed_tensor(value: PrimExpr) -> Tensor:
    (load,) = (n for n in unique_nodes(value) if isinstance(n, Load))
    return load.tensor


class _PackedKernel(MatrixKernel):
    def plan(self, when: tuple[object, ...]) -> KernelPlan:
        p, tile = self.p, self.tile
        statements: list[Stmt] = [
            LocalArray(self.right, tile.alignment),
            WorkGroup(self.group),
            *unravel(self.group, self.order),
            LocalItem(self.item),
            Alloc(self.sums, const(0, self.dtype)),
            PackedSteps(self, _packed_tensor(p.left.value), _packed_tensor(p.right.value)),
            *self._store(),
        ]
        return KernelPlan(f"packed{tile}", statements, self.extent, True, (), tile.items)


@dataclass(frozen=True, eq=False)
class PackedSteps(OwnText):
    """The sums grow by all steps: of *left* in registers, of *right* in tiles that are copied to local memory."""

    of: _PackedKernel
    left: Tensor
    right: Tensor

    def write(self, writer: KernelWriter) -> None:
        of, exprs, line = self.of, writer.exprs, writer.writer.line
        steps, name = int(self.right.shape[1]), of.format.name
        row, column = (exprs.text(exprs.simplify(b), 13) for b in (of.row_block, of.column_block))
        item = writer.index(of.item)
        sixteen = f"(long){row} * {BLOCK // ROWS} + {item} / {WARP}"
        left, tiles = (exprs.names.fresh(n) for n in ("lanes", "tiles"))
        first, tile = (self._words(writer, operand) for operand in (self.left, self.right))
        line(f"__global const uint *{left} = {first} + ({sixteen}) * {steps * LEFT_WORDS};")
        line(f"__global const uint *{tiles} = {tile} + (long){column} * {steps * RIGHT_WORDS};")
        names = _Names(item, exprs.names(of.sums, "sums"), left, tiles, exprs.names(of.right, "right"), steps)
        exprs.helpers.setdefault((FUNCTIONS[of.units], name))
        exprs.helpers.setdefault(("matrix_copies", of.units))
        if of.units != PTX:
            exprs.helpers.setdefault(("packed_plain", name))
            self._one_by_one(writer, names, lambda: self._plain(writer, names))
            return
        for helper in (("packed_tiles", of.units), ("packed_step", name), ("see_stored", of.units)):
            exprs.helpers.setdefault(helper)
        line(f"#ifdef {MACRO}")
        self._pipeline(writer, names)
        line("#else")
        self._one_by_one(writer, names, lambda: self._by_warps(writer, names))
        line("#endif")

    def _words(self, writer: KernelWriter, tensor: Tensor) -> str:
        return f"(__global const uint *)&{writer.exprs.element(tensor, tuple(as_index(0) for _ in tensor.shape))}"

    def _pipeline(self, writer: KernelWriter, names: _Names) -> None:
        """A tile is on its way, and the left operand's registers, while the one before is multiplied."""
        exprs, line, n = writer.exprs, writer.writer.line, names
        arrived, step = exprs.names.fresh("arrived"), exprs.names.fresh("step")
        registers = [exprs.names.fresh(f"left{k}") for k in range(2)]
        line(f"__local ulong {arrived}[2];")
        with writer.writer.block(f"if ({n.item} == 0) {{"):
            line(f"begin_tiles(&{arrived}[0]);")
            line(f"begin_tiles(&{arrived}[1]);")
            line("see_stored();")
        line("barrier(CLK_LOCAL_MEM_FENCE);")
        line(f"if ({n.item} == 0) copy_tile({n.right}, {n.tiles}, {TILE_BYTES}, &{arrived}[0]);")
        line(f"uint {registers[0]}[{4 * INSTRUCTIONS}], {registers[1]}[{4 * INSTRUCTIONS}];")
        own = f"{n.left} + {n.item} % {WARP} * {CHUNK}"
        line(f"load_packed({registers[0]}, {own});")

        def multiplied(k: int, at: str, follows: str | None) -> None:
            """The step *at*, of side *k*; the condition on which another *follows*, "" where one does, or none."""
            line("barrier(CLK_LOCAL_MEM_FENCE);")  # all have multiplied the tile that stood where the next one goes
            further = f"({at} + 1)"
            if follows is not None:
                side = f"&{n.right}[{(1 - k) * RIGHT_WORDS}]"
                tile = f"{n.tiles} + {further} * {RIGHT_WORDS}"
                first = f"{n.item} == 0" + (f" && {follows}" if follows else "")
                line(f"if ({first}) copy_tile({side}, {tile}, {TILE_BYTES}, &{arrived}[{1 - k}]);")
            line(f"wait_for_tile(&{arrived}[{k}], {at} / 2 & 1);")
            if follows is not None:
                load = f"load_packed({registers[1 - k]}, {own} + {further} * {LEFT_WORDS});"
                line(f"if ({follows}) {load}" if follows else load)
            lines = f"packed_lines(&{n.right}[{k * RIGHT_WORDS}])"
            line(f"multiply_packed_{self.of.format.name}({n.sums}, {registers[k]}, {lines});")

        pairs = n.steps // 2
        if pairs:
            line("#pragma unroll 1")
            with writer.writer.block(f"for (int {step} = 0; {step} < {2 * pairs}; {step} += 2) {{"):
                multiplied(0, step, "")
                multiplied(1, f"({step} + 1)", f"{step} + 2 < {n.steps}")
        if n.steps % 2:
            multiplied(0, str(n.steps - 1), None)

    def _one_by_one(self, writer: KernelWriter, names: _Names, multiply: Callable[[], None]) -> None:
        """A tile is copied, then multiplied."""
        line, n = writer.writer.line, names
        with writer.writer.block(f"for (int step = 0; step < {n.steps}; ++step) {{"):
            chunk = f"({n.item} + k * {ITEMS}) * {CHUNK}"
            with writer.writer.block(f"for (int k = 0; k < {RIGHT_WORDS // CHUNK // ITEMS}; ++k) {{"):
                line(f"copy_chunk(&{n.right}[{chunk}], {n.tiles} + step * {RIGHT_WORDS} + {chunk}, 1);")
            if self.of.units == PTX:
                line('asm volatile("cp.async.commit_group;" ::: "memory");')
                line('asm volatile("cp.async.wait_group 0;" ::: "memory");')
            line("barrier(CLK_LOCAL_MEM_FENCE);")
            multiply()
            line("barrier(CLK_LOCAL_MEM_FENCE);")

    def _by_warps(self, writer: KernelWriter, names: _Names) -> None:
        """By the instruction of one warp, whose registers of the left operand are the same."""
        line, n, name = writer.writer.line, names, self.of.format.name
        load = "{}"
        if self.of.format == TF32:
            writer.exprs.helpers.setdefault(("matrix_rounded", name))
            load = "rounded_tf32({})"
        line(f"__local const uint *line = &{n.right}[({n.item} % 8 + {n.item} / 16 % 2 * 8) * {WORDS}];")
        for k in range(INSTRUCTIONS):
            with writer.writer.block("{"):
                own = f"{n.left} + step * {LEFT_WORDS} + {k * WARP * 4} + {n.item} % {WARP} * 4"
                line(f"const uint4 a = {load.format(f'*(__global const uint4 *)({own})')};")
                chunk = f"(({2 * k} + {n.item} / 8 % 2) ^ {n.item} % {CHUNKS}) * {CHUNK}"
                for j in range(BLOCK // ROWS):
                    line(f"const uint4 b{j} = {load.format(f'load_matrices(line + {j * ROWS * WORDS} + {chunk})')};")
                    for half in range(2):
                        at = 4 * (2 * j + half)
                        line(f"multiply_{name}({n.sums} + {at}, a, b{j}.s{2 * half}, b{j}.s{2 * half + 1});")

    def _plain(self, writer: KernelWriter, names: _Names) -> None:
        """The same sums by the same work-items, from memory and local memory as they are."""
        line, n = writer.writer.line, names
        lane = f"{n.item} % {WARP}"
        own = f"{n.left} + step * {LEFT_WORDS} + {lane} / 4 * 16"
        with writer.writer.block(f"for (int k = 0; k < {BLOCK // 2}; ++k) {{"):
            line(f"const int column = k / 4 * 8 + {lane} % 4 * 2 + k % 2;")
            dot = f"dot_packed_{self.of.format.name}"
            right = f"&{n.right}[column * {WORDS}]"
            line(f"{n.sums}[k] = {dot}({n.sums}[k], {own} + k / 2 % 2, {right}, column % {CHUNKS});")
