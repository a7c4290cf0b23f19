"""How C is exported: for which compiler and processor, with how much of a team, and where the weights lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.emit import check_symbol
from byoc.codegen.c.language.dialect import PLAIN_MACHINE, Dialect
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.machine import NO_MATRICES, Machine
from byoc.codegen.c.winograd.options import DEFAULT as WINOGRAD
from byoc.codegen.c.winograd.options import WinogradOptions
from byoc.errors import UserError
from byoc.runtime.core.processor import this_processor

ARRAYS, INCLUDED, SEPARATE = "c", "incbin", "bin"
WEIGHTS = (ARRAYS, INCLUDED, SEPARATE)
LARGE_WEIGHTS = 4 << 20  # bytes from which arrays in C would compile for longer than the code
_MACROS = {64: ("__AVX512F__", "AVX-512"), 32: ("__AVX__", "AVX")}


@dataclass(frozen=True)
class ExportOptions:
    """``symbol`` begins every name that the linker sees; ``machine`` is what schedules are for, with ``flags``.

    ``weights``, one of :data:`WEIGHTS` or empty for what fits their size: arrays in C, a file that the assembler
    includes, or a file whose place in memory is given at run time. ``winograd``: which convolutions may take that
    method.
    """

    symbol: str
    dialect: Dialect
    machine: Machine
    flags: tuple[str, ...]
    weights: str = ""
    winograd: WinogradOptions = WINOGRAD

    @property
    def alignment(self) -> int:
        """The alignment in bytes of the arena, and of weights that are one file."""
        return 8 if self.dialect.plain else 64

    @property
    def macro(self) -> tuple[str, str] | None:
        """The macro of a compiler that writes for the processor, and what it stands for; None where any is good."""
        return None if self.dialect.plain else _MACROS.get(self.machine.vector_bytes)

    def check_tuning(self) -> None:
        """Raises UserError where candidates for this code cannot be timed here."""
        if self.dialect.plain:
            raise UserError("portable C is for any processor, and tuning times code on this one: leave out one of them")
        problem = this_processor().lacks(find_compiler().processor(self.flags))
        if problem:
            raise UserError(f"tuning times the code on this machine: {problem}; tune where the code will run")

    def check_precision(self, dot: str) -> None:
        """Raises UserError where the processor has no instruction for the products *dot* of ``te.expr.DOTS``."""
        if dot not in self.machine.dots:
            which = "portable C" if self.dialect.plain else f"the processor of {' '.join(self.flags)}"
            raise UserError(f"{which} has no instruction {dot}: export in f32, or with --march for one that has it")

    def weights_form(self, size: int) -> str:
        """The form of weights of so many bytes."""
        large = size > LARGE_WEIGHTS and not self.dialect.plain
        return self.weights or (INCLUDED if large else ARRAYS)


def export_options(
    symbol: str = "model",
    portable: bool = False,
    threads: bool = False,
    weights: str = "",
    march: str = "native",
    winograd: WinogradOptions = WINOGRAD,
) -> ExportOptions:
    """The options of ``byoc export-c``.

    Raises UserError for what does not go together, CompileError for a symbol that is no name, CompilerNotFoundError
    where the compiler has to be asked what the processor *march* can do and there is none.
    """
    check_symbol(symbol)
    if weights and weights not in WEIGHTS:
        raise UserError(f"weights is one of {', '.join(WEIGHTS)}, got {weights!r}")
    if not portable:
        compiler = find_compiler()
        refused = [f for f in NO_MATRICES if f in compiler.flags and march == "native"]
        flags = (f"-march={march}", *refused)
        machine = compiler.machine_for(flags)
        return ExportOptions(symbol, Dialect(team=threads, stops=False), machine, flags, weights, winograd)
    if threads:
        raise UserError("portable C has no threads, for C99 has no atomic operations: leave out one of the two")
    if weights == INCLUDED:
        raise UserError("portable C cannot include a file of weights, which takes an assembler: choose c or bin")
    if march != "native":
        raise UserError("portable C is for any processor: leave out the name of one")
    return ExportOptions(symbol, Dialect(plain=True, team=False, wide=False), PLAIN_MACHINE, (), weights, winograd)


def joined(parts: Sequence[str]) -> str:
    """*parts* of a source, each ending its last line, an empty line between two."""
    return "\n".join(part for part in parts if part)
