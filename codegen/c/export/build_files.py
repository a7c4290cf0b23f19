"""The Makefile of an exported model, and what a person should know about the folder."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from byoc.codegen.c.export.interface import Interface
from byoc.codegen.c.export.options import ARRAYS, INCLUDED, SEPARATE, ExportOptions
from byoc.codegen.c.toolchain import compiler_flags, unit_flags
from byoc.codegen.c.whole.unit import Unit
from byoc.codegen.kernel.writer import comment_text

WARNINGS = "-Wall -Wextra"
PORTABLE_FLAGS = ("-std=c99",)
VECTOR_FLAGS = ("-std=gnu11", "-fno-math-errno")


@dataclass(frozen=True)
class Peculiarities:
    """What the code of a model does that takes flags.

    Integers that wrap, loads from loaded places and under conditions, a team's stores, products that are contracted and
    others that are not.
    """

    wraps: bool = False
    gathers: bool = False
    masks: bool = False
    team: bool = False
    contracts: bool = False
    separates: bool = False

    @staticmethod
    def of(units: Iterable[Unit], options: ExportOptions) -> Peculiarities:
        """Those of *units* and their team; plain C has none but the team's."""
        found = [] if options.dialect.plain else list(units)
        return Peculiarities(
            any(unit.wraps for unit in found),
            any(unit.gathers for unit in found),
            any(unit.masks for unit in found),
            options.dialect.team,
            any(unit.contracts for unit in found),
            any(unit.separates for unit in found),
        )

    @property
    def gcc_flags(self) -> dict[str, str]:
        """Why GCC needs flags that others do not have, and which."""
        reasons = {
            "GCC's conversion of conditions is wrong about some loops where overflow wraps": unit_flags.NO_IF_CONVERSION
            if self.wraps
            else (),
            "GCC's vectoriser is wrong about some loads from places that are loaded": unit_flags.NO_LOOP_VECTORS
            if self.gathers
            else (),
            "GCC's conversion of conditions gives neighbouring loads the mask of the first": unit_flags.NO_IF_CONVERSION
            if self.masks
            else (),
            "GCC's predictive commoning stores again what another thread has stored": compiler_flags.NO_COMMONING
            if self.team
            else (),
            "GCC's vectoriser contracts products that are to be rounded before they are added": unit_flags.NO_VECTORISER
            if self.contracts and self.separates
            else (),
            "GCC leaves steps of a sum that is alone in its loop unfused, for some processors": unit_flags.EVERY_STEP
            if self.contracts
            else (),
        }
        return {why: " ".join(flags) for why, flags in reasons.items() if flags}


def needed_flags(options: ExportOptions, peculiar: Peculiarities) -> tuple[str, ...]:
    """The flags that the code needs from every compiler."""
    if options.dialect.plain:
        return PORTABLE_FLAGS
    return (
        *VECTOR_FLAGS,
        *options.flags,
        *(unit_flags.WRAPPING_FLAGS if peculiar.wraps else ()),
        *(() if peculiar.contracts else unit_flags.NO_CONTRACTION),
    )


def write_makefile(options: ExportOptions, form: str, has_weights: bool, peculiar: Peculiarities) -> str:
    """``make`` builds the example, ``make clean`` removes what was built."""
    symbol, plain = options.symbol, options.dialect.plain
    source = has_weights and form != SEPARATE
    headers = f"{symbol}.h" + (f" {symbol}_weights.h" if source else "")
    objects = f"{symbol}.o" + (f" {symbol}_weights.o" if source else "")
    lines = [
        f"CFLAGS ?= {'-O3 -Werror -pedantic' if plain else '-O3'} {WARNINGS}",
        "# what the code needs, whatever CFLAGS are",
        f"NEEDED := {' '.join(needed_flags(options, peculiar))}",
    ]
    for why, flags in peculiar.gcc_flags.items():
        lines += [f"# {why}", f"NEEDED += $(if $(findstring clang,$(shell $(CC) --version)),,{flags})"]
    flag = compiler_flags.NO_FLOAT_RANGES[0]
    lines += [
        f"# {compiler_flags.WHY_NO_FLOAT_RANGES}",
        f"NEEDED += $(if $(findstring Free Software Foundation,$(shell $(CC) --version)),{flag})",
    ]
    lines += [
        "",
        f"{symbol}: main.o {objects}",
        "\t$(CC) $(CFLAGS) $(NEEDED) $(LDFLAGS) -o $@ $^ -lm",
        "",
        f"%.o: %.c {headers}",
        "\t$(CC) $(CFLAGS) $(NEEDED) -c -o $@ $<",
        "",
    ]
    if has_weights and form == INCLUDED:
        lines += [f"{symbol}_weights.o: {symbol}_weights.bin", ""]
    lines += [".PHONY: clean", "clean:", f"\trm -f {symbol} main.o {objects}"]
    return "\n".join(lines) + "\n"


_FORMS = {
    ARRAYS: "{s}_weights.c, {s}_weights.h   the weights, as arrays",
    INCLUDED: "{s}_weights.bin, .c, .h   the weights, a file that the assembler puts into the program",
    SEPARATE: "{s}_weights.bin   the weights: have them in memory, read or mapped, and give their place to {s}_run",
}


def write_readme(
    interface: Interface, options: ExportOptions, form: str, has_weights: bool, peculiar: Peculiarities
) -> str:
    """The text of README.txt."""
    symbol = options.symbol
    lines = [
        f"{comment_text(interface.title)}, as C. Written by byoc; it needs a C compiler and nothing else.",
        "",
        "  make",
        f"  ./{symbol}            runs on zeros; ./{symbol} FILE... on the bytes of each input",
        "",
        "Files:",
        "",
        f"  {symbol}.c, {symbol}.h   the model: call {symbol}_run",
        *([f"  {_FORMS[form].format(s=symbol)}"] if has_weights else []),
        "  main.c   an example   Makefile   builds it",
        "",
        "Inputs:",
        "",
        *(f"  {a.identifier}   {a.described()}, {a.size} bytes" for a in interface.inputs),
        "",
        "Outputs:",
        "",
        *(f"  {a.identifier}   {a.described()}, {a.size} bytes" for a in interface.outputs),
        "",
        f"A run works in {interface.arena} bytes that its caller gives (the arena). It allocates nothing and has no",
        "variables of its own, so any number of threads may run at once, each with its own arena.",
        f"Its local arrays take {interface.stack} bytes of the stack at most.",
        "",
        f"The code needs these flags: {' '.join(needed_flags(options, peculiar))}",
    ]
    if options.dialect.plain:
        lines.append("It is C99 without extensions, for one thread; its mathematics are those of the C library.")
    if peculiar.gcc_flags:
        lines.append(f"GCC also needs {' '.join(peculiar.gcc_flags.values())} (the Makefile says why).")
    if options.dialect.team:
        lines.append(f"Threads of yours may share one run: {symbol}_run_part, in {symbol}.h.")
    return "\n".join(lines) + "\n"
