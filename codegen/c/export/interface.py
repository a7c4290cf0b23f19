"""What a user of the exported code sees: inputs and outputs by names that are made from the model's, and the header."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.export.options import ExportOptions
from byoc.codegen.c.language.spellings import RESERVED, TYPES
from byoc.codegen.kernel.writer import Names, comment_text, identifier
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.signature import TensorSpec

# words of C++, macros that compilers predefine, and what the exported code calls its own
_TAKEN = frozenset(
    "alignas alignof and and_eq asm bitand bitor catch class compl concept const_cast constexpr decltype delete "
    "dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private "
    "protected public reinterpret_cast requires static_assert static_cast template this throw try typeid typename "
    "using virtual wchar_t xor xor_eq near far linux unix i386 I status arena weights thread threads meeting "
    "memory".split()
)

_NO_MATRICES = "/* the system does not let this process use AMX */"


@dataclass(frozen=True)
class ExportedArgument:
    """An input or output: its identifier, the macros' name (both unique), and what it is in the model."""

    identifier: str
    macro: str
    spec: TensorSpec

    @property
    def ctype(self) -> str:
        return TYPES[self.spec.dtype]

    @property
    def count(self) -> int:
        """The number of elements."""
        return math.prod(d for d in self.spec.shape if isinstance(d, int))

    @property
    def size(self) -> int:
        """The number of bytes."""
        return self.count * dtype_bytes(self.spec.dtype)

    def described(self) -> str:
        """Name, dtype and shape, to stand in a comment."""
        return comment_text(f"{self.spec.name}: {self.spec.dtype}[{', '.join(map(str, self.spec.shape))}]")


@dataclass(frozen=True)
class Interface:
    """The functions' arguments; ``title`` is the model's name, ``arena`` the bytes between the inputs and the outputs.

    ``stack`` are the bytes of the largest function's local arrays, ``weights`` those that are given at run time, 0
    where they are part of the code. ``matrices``: a run needs the system's leave to use matrix registers. ``checks``:
    it looks for indices outside their dimensions.
    """

    title: str
    inputs: tuple[ExportedArgument, ...]
    outputs: tuple[ExportedArgument, ...]
    arena: int
    stack: int
    weights: int = 0
    matrices: bool = False
    checks: bool = False

    def parameters(self) -> list[str]:
        """The parameters of ``<symbol>_run`` without those of a thread."""
        found = [f"const {a.ctype} *{a.identifier}" for a in self.inputs]
        found += [f"{a.ctype} *{a.identifier}" for a in self.outputs]
        return [*found, "void *arena", *(["const void *weights"] if self.weights else [])]

    def pointers(self) -> list[str]:
        """The names of the parameters that must not be null, ``arena`` apart."""
        return [a.identifier for a in (*self.inputs, *self.outputs)]


def name_arguments(
    inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec], taken: Sequence[str] = ()
) -> tuple[tuple[ExportedArgument, ...], tuple[ExportedArgument, ...]]:
    """Arguments with identifiers of their own, different from *taken*; names in capitals alone might be macros."""
    names, macros = Names(RESERVED | _TAKEN | set(taken)), Names(())

    def named(spec: TensorSpec, way: str) -> ExportedArgument:
        plain = identifier(spec.name)
        name = names.fresh(plain if any(c.islower() for c in plain) else plain.lower())
        return ExportedArgument(name, macros.fresh(f"{way}_{plain.upper()}"), spec)

    return tuple(named(s, "INPUT") for s in inputs), tuple(named(s, "OUTPUT") for s in outputs)


def write_header(interface: Interface, options: ExportOptions) -> str:
    """The text of ``<symbol>.h``."""
    symbol, upper = options.symbol, options.symbol.upper()
    lines = [
        f"/* {comment_text(interface.title)} as C, written by byoc. */",
        f"#ifndef {upper}_H",
        f"#define {upper}_H",
        "",
        "#include <stdbool.h>",
        "#include <stdint.h>",
        "",
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        "",
        f"#define {upper}_INPUTS {len(interface.inputs)}",
        f"#define {upper}_OUTPUTS {len(interface.outputs)}",
        "",
    ]
    for argument in (*interface.inputs, *interface.outputs):
        lines += [
            f"/* {argument.described()} */",
            f"#define {upper}_{argument.macro}_COUNT {argument.count}",
            f"#define {upper}_{argument.macro}_BYTES {argument.size}",
            "",
        ]
    lines += [
        "/* The memory that a run works in. It holds nothing between runs; two runs at a time need one each. */",
        f"#define {upper}_ARENA_BYTES {interface.arena}",
        f"#define {upper}_ARENA_ALIGNMENT {options.alignment}",
        "",
    ]
    lines += [
        "/* The local arrays of the function that has most of them; registers and calls take more of the stack. */",
        f"#define {upper}_STACK_BYTES {interface.stack}",
        "",
    ]
    if interface.weights:
        lines += [
            f"/* What {symbol}_weights.bin holds: it must lie in memory, flash or mapped, as long as a run lasts. */",
            f"#define {upper}_WEIGHTS_BYTES {interface.weights}",
            f"#define {upper}_WEIGHTS_ALIGNMENT {options.alignment}",
            "",
        ]
    lines += [*_status_codes(upper, options.dialect.team, interface), "", *_prototypes(interface, options)]
    return "\n".join([*lines, "#ifdef __cplusplus", "}", "#endif", "", "#endif", ""])


def _status_codes(upper: str, team: bool, interface: Interface) -> list[str]:
    return [
        "/* What the functions return. */",
        f"#define {upper}_OK 0",
        f"#define {upper}_NULL_POINTER 1 /* an argument is null */",
        f"#define {upper}_UNALIGNED 2 /* the arena or the weights do not have their alignment */",
        *([f"#define {upper}_BAD_THREAD 3 /* thread is none of 0 to threads - 1 */"] if team else []),
        *([f"#define {upper}_NO_MATRICES 4 {_NO_MATRICES}"] if interface.matrices else []),
        *(_index_code(upper) if interface.checks else []),
    ]


def _index_code(upper: str) -> list[str]:
    return [
        "/* An index among the inputs is outside its dimension: the outputs are not to be used. Nothing outside of the",
        " * arrays was read or written. */",
        f"#define {upper}_INDEX_OUT_OF_RANGE 5",
    ]


def _prototypes(interface: Interface, options: ExportOptions) -> list[str]:
    symbol, upper = options.symbol, options.symbol.upper()
    parameters = interface.parameters()
    weights = f" weights: {upper}_WEIGHTS_BYTES bytes." if interface.weights else ""
    lines = [
        "/* Run the model. Arrays are row-major and must not overlap; inputs are only read. arena:",
        f" * {upper}_ARENA_BYTES bytes, aligned to {upper}_ARENA_ALIGNMENT.{weights} Nothing else is written, nothing",
        " * is allocated: any number of threads may run the model at once, each with its own arena. */",
        *_prototype(f"int {symbol}_run", parameters),
        "",
    ]
    if not options.dialect.team:
        return lines
    return [
        *lines,
        "/* Where the threads of one run meet: 0 in every byte before the first run. */",
        f"typedef struct {{ int32_t counts[32]; }} {symbol}_meeting;",
        "",
        "/* One thread's part of a run that several threads make together: all of them call with the same arguments,",
        " * but for thread, from 0 to threads - 1. It returns in each when the whole run is done. The outputs are the",
        " * same bits for any number of threads. */",
        *_prototype(f"int {symbol}_run_part", [*parameters, "int thread", "int threads", f"{symbol}_meeting *meeting"]),
        "",
    ]


def _prototype(head: str, parameters: Sequence[str]) -> list[str]:
    """A prototype, a line a parameter."""
    return [f"{head}(", *(f"  {p}," for p in parameters[:-1]), f"  {parameters[-1]}", ");"]
