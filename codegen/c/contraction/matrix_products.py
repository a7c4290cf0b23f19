"""Which contractions of words matrix registers can compute (Intel's AMX), in which blocks, and what these cost.

A matrix register holds up to 16 rows of 64 bytes. One instruction adds to 16 x 16 sums the dot products of 16 positions
of the standing operand, whose rows lie at one distance from each other, with 16 words each, and of 16 lanes of the
moving operand, whose words lie in as many rows: a piece of a panel as it is. A block has ``matrices`` such products
below each other and ``vectors`` beside each other, so that what is loaded for one is used by others.

A sum whose words cannot be divided into equal steps of 16 or a few less, whose rows are not at one distance, or that
has fewer rows than pay, is left to vectors. Where borders leave out terms of some rows, zeros stand for these.

What the inner loop can reach: a product starts every 16 cycles, a register is loaded in 8. A block of 2 x 2 loads four
registers for four products, 32 cycles of loading beside 64 of multiplying, so with operands in the first cache the
products are the limit; 1 x 2 (1.5 loads a product) still is. From the second cache four registers are 4 KiB, 85 cycles
at the 48 bytes a cycle that it sustains, so that 75 % of the peak are left where both operands come from there, and
100 % where one of them does. Rows or words that do not fill a register cost in proportion: 14 of 16 rows, 88 %.
Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, the chapter on AMX.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.contraction.shape import PANEL, Contraction
from byoc.codegen.c.tiling.access import Access
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.kernel.inline import estimated_size
from byoc.ir.types import dtype_bytes
from byoc.te.expr import Const, Intrinsic
from byoc.te.tensor import Load

ROWS = 16  # of a matrix register
WORDS = 16  # in one of its rows
WORD_BYTES = 4
REGISTERS = 8
FEWEST_RIGHTS = 2  # registers for lanes of the moving operand, so that one is loaded while another is multiplied
FEWEST_PRODUCTS = 64  # of a nest inside other loops, which gives the registers their shapes every time

DOT_LATENCY = 52.0  # cycles from a product to one that adds to the same sums; to another, one for each row or word
ROWS_LOADED = 2.0  # in a cycle, from the first cache
HINDRANCE = 0.1  # of the cycles of loading that does not hide behind products
STREAM = 48.0  # bytes in a cycle from the second one
FIRST_CACHE_BYTES = 48 << 10
BEGIN, STORE = 24.0, 16.0  # cycles to begin a block, and to store a register


@dataclass(frozen=True)
class MatrixProduct:
    """A contraction that matrix registers can compute.

    ``step`` words of the innermost summed axis are taken at a time, ``left_step`` elements of the *left* operand's
    tensor lie between two rows, ``right_step`` elements of the *right* one's between two words of a sum.
    """

    dot: str
    swapped: bool
    left: Access
    right: Access
    step: int
    left_step: int
    right_step: int


@dataclass(frozen=True)
class MatrixBlock:
    """*matrices* registers of *rows* positions, each with *vectors* registers of lanes; *cycles*: what a nest costs."""

    rows: int
    matrices: int
    vectors: int
    cycles: float


def matrix_product(c: Contraction, machine: Machine, packed: bool = False) -> MatrixProduct | None:
    """*c* for the matrix registers of *machine*, None where they cannot do it; *packed*: lanes will be in panels."""
    term = c.term
    if not isinstance(term, Intrinsic) or term.name not in machine.matrices or machine.lanes(WORD_BYTES) != WORDS:
        return None
    loads, added = term.args[:2], term.args[2]
    if not all(isinstance(e, Load) for e in loads) or not isinstance(added, Const) or added.value != 0:
        return None
    if len(c.standing) != 1 or len(c.moving) != 1 or c.row is None:
        return None
    left, right, inner = c.standing[0], c.moving[0], c.reduce.axes[-1]
    if not isinstance(inner.extent, int) or any(g.axis is inner for g in c.guards):
        return None
    left_step, right_step = left.steps[c.row], right.steps[inner]
    whole = not right.load.is_word and right.steps[c.row] == 0
    ordered = packed or (isinstance(right_step, int) and (right.load.tensor.tag == PANEL or right.steps[c.lane] == 1))
    if not (whole and ordered and left_step) or left.steps[inner] != WORD_BYTES // dtype_bytes(left.load.tensor.dtype):
        return None
    return MatrixProduct(
        term.name, left.load is loads[1], left, right, equal_steps(inner.extent), left_step, right_step or 0
    )


def equal_steps(extent: int) -> int:
    """The largest number up to ``WORDS`` that divides *extent*."""
    return next(n for n in range(min(extent, WORDS), 0, -1) if extent % n == 0)


def matrix_blocks(c: Contraction, product: MatrixProduct, vectors: Sequence[int]) -> list[MatrixBlock]:
    """The best block of each number of *vectors* and of matrices that fit the registers."""
    extent = estimated_size([c.row_count])
    found = []
    for v in vectors:
        for matrices in range(1, 4):
            sizes = range(1, min(ROWS, extent // matrices) + 1)
            if sizes and matrices * v + matrices + min(v, FEWEST_RIGHTS) <= REGISTERS:
                blocks = (MatrixBlock(n, matrices, v, _cycles(c, product, n, matrices, v)) for n in sizes)
                found.append(min(blocks, key=lambda b: b.cycles))
    return found


def right_registers(matrices: int, vectors: int) -> int:
    """How many registers hold lanes of the moving operand at a time."""
    return min(vectors, REGISTERS - matrices * vectors - matrices)


def worth_shapes(c: Contraction, product: MatrixProduct, rows: int) -> bool:
    """Whether a nest of *c* that is one of many is long enough to give the registers their shapes for it alone."""
    registers = estimated_size([a.extent for a in c.batch]) * -(-estimated_size([c.row_count]) // rows)
    return registers * -(-int(c.lane.extent) // WORDS) * (c.points // product.step) >= FEWEST_PRODUCTS


def _cycles(c: Contraction, product: MatrixProduct, rows: int, matrices: int, vectors: int) -> float:
    """All blocks of one position of the batch: what they multiply, load and store."""
    extent = estimated_size([c.row_count])
    count = math.ceil(extent / (rows * matrices)) * math.ceil(int(c.lane.extent) / (vectors * WORDS))
    dots = matrices * vectors
    left, right = rows * matrices, product.step * vectors  # rows of registers that are loaded
    far = sum(
        WORD_BYTES * n
        for n in (
            left * product.step if WORD_BYTES * left * c.points > FIRST_CACHE_BYTES // 2 else 0,
            right * WORDS if WORD_BYTES * WORDS * vectors * c.points > FIRST_CACHE_BYTES // 2 else 0,
        )
    )
    loads = (left + right) / ROWS_LOADED
    step = max(dots * max(rows, product.step), loads, far / STREAM, DOT_LATENCY) + HINDRANCE * loads
    return count * (c.points / product.step * step + BEGIN + dots * (STORE + 2 * rows))
