"""Statements on matrix registers as C: Intel's AMX, through the intrinsics of ``<immintrin.h>``.

GCC's intrinsics are assembly that does not say what it reads, so fences keep stores on their side of it: where a nest
begins and where it ends, and around each load of what is stored inside of it. A library that has such statements runs
only where the system lets the process use the registers (``runtime/dso/matrix_permission.py``).
Source: Intel's Architecture Instruction Set Extensions reference, LDTILECFG, TILELOADD, TDPBF16PS, TDPBUSD, TDPBSUD.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.loops import (
    MatrixDot,
    MatrixLoad,
    MatrixRelease,
    MatrixShapes,
    MatrixStore,
    MatrixZero,
)
from byoc.codegen.kernel.writer import Writer
from byoc.ir.types import dtype_bytes
from byoc.te import PrimExpr, Tensor

HELPER = ("matrix_registers", "uint32")  # what a unit's helpers have where it uses the registers
ROWS_HELPER = ("matrix_rows", "uint8")
FENCE = '__asm__ volatile("" : : : "memory");'
LINE = 64  # bytes of a row
COUNT = 16  # registers that the shapes have places for; a processor has half as many
# a dot of ``te.expr.DOTS``, and whether its first argument is on the right -> the intrinsic
_DOTS = {
    ("dot_bf16", False): "_tile_dpbf16ps",
    ("dot_bf16", True): "_tile_dpbf16ps",
    ("dot_u8s8", False): "_tile_dpbusd",
    ("dot_u8s8", True): "_tile_dpbsud",
}

SUPPORT = """#if !defined(__AMX_TILE__) && !defined(__AMXTILE__)
#error "this code is for processors with AMX: compile for such a one, or generate it again for another"
#endif
#include <immintrin.h>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>

/* Whether the system lets this process use the registers; it is asked with ARCH_REQ_XCOMP_PERM, for all threads. */
static inline int matrices_permitted(void) {
  return syscall(SYS_arch_prctl, 0x1023, 18) == 0;
}
#else
static inline int matrices_permitted(void) {
  return 1;
}
#endif

static __attribute__((constructor)) void ask_for_matrices(void) {
  (void)matrices_permitted();
}

/* The shapes of the matrix registers, as LDTILECFG takes them. */
typedef struct {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} MatrixShapes;
"""
ROWS_SUPPORT = """\
/* Lines of 64 bytes for rows of a register: from first up to end what lies at place and step bytes on, else zeros. */
static inline void matrix_rows(
  uint8_t *restrict lines, const void *restrict place, int64_t step, size_t bytes, int first, int end, int count
) {
  memset(lines, 0, 64 * (size_t)count);
  for (int row = first; row < end; ++row)
    memcpy(lines + 64 * row, (const uint8_t *)place + (row - first) * step, bytes);
}"""


class RegisterWriter(Protocol):
    """Whoever writes the statements of a function's body, these among them."""

    writer: Writer
    exprs: ExprWriter
    local_bytes: int  # of all local arrays
    shapes: Sequence[tuple[int, int]]  # rows and words of each register


def shapes(writer: RegisterWriter, stmt: MatrixShapes) -> None:
    """A constant, and its use."""
    writer.exprs.helpers.setdefault(HELPER)
    writer.shapes = stmt.shapes
    name = writer.exprs.names.fresh("shapes")
    missing = [0] * (COUNT - len(stmt.shapes))
    row_bytes = ", ".join(map(str, [*(4 * words for _, words in stmt.shapes), *missing]))
    rows = ", ".join(map(str, [*(rows for rows, _ in stmt.shapes), *missing]))
    writer.writer.line(f"static _Alignas(64) const MatrixShapes {name} = {{1, 0, {{0}}, {{{row_bytes}}}, {{{rows}}}}};")
    writer.writer.line(FENCE)
    writer.writer.line(f"_tile_loadconfig(&{name});")


def zero(writer: RegisterWriter, stmt: MatrixZero) -> None:
    """All rows of a register."""
    writer.writer.line(f"_tile_zero({stmt.number});")


def load(writer: RegisterWriter, stmt: MatrixLoad) -> None:
    """Rows at one distance; where not all exist, from a local array."""
    place, step = _place(writer, stmt.source, tuple(stmt.indices)), stmt.step * dtype_bytes(stmt.source.dtype)
    if stmt.inside is not None:
        writer.exprs.helpers.setdefault(ROWS_HELPER)
        rows, words = writer.shapes[stmt.number]
        lines = writer.exprs.names.fresh("lines")
        writer.local_bytes += LINE * rows
        writer.writer.line(f"_Alignas({LINE}) uint8_t {lines}[{LINE * rows}];")
        arguments = f"{lines}, {place}, {step}, {4 * words}, {stmt.inside.start}, {stmt.inside.stop}, {rows}"
        writer.writer.line(f"matrix_rows({arguments});")
        place, step = lines, LINE
    if stmt.inside is not None or stmt.source in writer.exprs.locals:
        writer.writer.line(FENCE)
    writer.writer.line(f"_tile_loadd({stmt.number}, {place}, {step});")
    if stmt.inside is not None:
        writer.writer.line(FENCE)


def dot(writer: RegisterWriter, stmt: MatrixDot) -> None:
    """One instruction."""
    intrinsic = _DOTS[stmt.dot, stmt.swapped]
    writer.writer.line(f"{intrinsic}({stmt.total}, {stmt.left}, {stmt.right});")


def store(writer: RegisterWriter, stmt: MatrixStore) -> None:
    """Rows at one distance."""
    place = _place(writer, stmt.target, tuple(stmt.indices))
    writer.writer.line(f"_tile_stored({stmt.number}, {place}, {stmt.step * dtype_bytes(stmt.target.dtype)});")


def release(writer: RegisterWriter, stmt: MatrixRelease) -> None:
    """The processor may forget them, and need not save them for others."""
    writer.writer.line(FENCE)
    writer.writer.line("_tile_release();")


def _place(writer: RegisterWriter, tensor: Tensor, indices: tuple[PrimExpr, ...]) -> str:
    position = writer.exprs.text(writer.exprs.simplify.rebuild(writer.exprs.flat(tensor, indices)), 13)
    name = writer.exprs.names(tensor, tensor.name)
    return name if position == "0" else f"{name} + {position}"


RULES: dict[type, Callable[..., None]] = {
    MatrixShapes: shapes,
    MatrixZero: zero,
    MatrixLoad: load,
    MatrixDot: dot,
    MatrixStore: store,
    MatrixRelease: release,
}
