"""C source from Programs: a function a group, and per symbol an entry and the size of its workspace.

``int32_t <symbol>(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team)`` takes inputs, constants
and outputs in the order of the signature; each thread of the team calls it. Equal groups share one function. The
source has no global state, compiles without a warning under ``-Wall -Wextra``, as a whole or by its units, and is the
same text whenever it is made for the same programs and machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.language.dialect import HOSTED
from byoc.codegen.c.language.spellings import RESERVED, TYPES, C
from byoc.codegen.c.toolchain.machine import Machine
from byoc.codegen.c.toolchain.sanitizers import GUARD, GUARD_BUFFER
from byoc.codegen.c.whole.emit import emit_whole_program
from byoc.codegen.c.whole.natives import LOOPS, NATIVES
from byoc.codegen.c.whole.program import plan_whole_program
from byoc.codegen.c.whole.support import POOL, PREAMBLE
from byoc.codegen.c.whole.unit import GroupCall, Unit, Units, definitions
from byoc.codegen.c.whole.workspace import WorkspacePlan, plan_workspace
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.program import Program, holds_batch
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.writer import Names, Writer
from byoc.errors import CompileError
from byoc.ir.types import dtype_bytes
from byoc.runtime.core.ndarray import ALIGNMENT
from byoc.runtime.dso.whole_program import WholeProgram
from byoc.runtime.graph.graph import Graph
from byoc.te import PrimExpr, Size, Tensor, binary
from byoc.te.walk import unique_nodes


@dataclass(frozen=True)
class LibrarySource:
    """The source of a library: its units, the ONNX nodes that each computes, and the entries that call them.

    ``helpers`` are those that the entries use; ``whole`` describes the entry of the whole program where there is one.
    """

    units: tuple[Unit, ...]
    origins: dict[str, tuple[str, ...]]
    entries: tuple[str, ...]
    helpers: tuple[tuple[str, str], ...] = ()
    whole: WholeProgram | None = None

    def text(self) -> str:
        """The whole source, to be read; it compiles as it stands."""
        parts = [PREAMBLE, *definitions(self.units, self.helpers)]
        parts += [f"{u.comment(self.origins[u.name])}{u.text}" for u in self.units]
        return "\n".join([*parts, *self.entries])

    def entries_source(self) -> str:
        """The source of the entries alone."""
        prototypes = "".join(f"{u.signature};\n" for u in self.units)
        return "\n".join([PREAMBLE, *definitions((), self.helpers), prototypes, *self.entries])


def check_symbol(symbol: str) -> None:
    """Raises CompileError unless *symbol* can be the name of an exported C function."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", symbol):
        raise CompileError(f"symbol {symbol!r} cannot be the name of a C function: use letters, digits and underscores")
    if symbol in RESERVED:
        raise CompileError(f"symbol {symbol!r} is a reserved word: C or the generated code uses it; choose another")


def emit_library(
    programs: Sequence[Program],
    machine: Machine,
    graph: Graph | None = None,
    whole_symbol: str = "",
    guarded: bool = False,
) -> LibrarySource:
    """The source of a library of all *programs*, and of the whole *graph* as the function *whole_symbol*.

    Where it is *guarded*, the address sanitizer is informed of what lies between the buffers of an arena. Raises
    CompileError for a function that C cannot express.
    """
    units = Units(machine)
    calls: dict[str, list[GroupCall]] = {}
    entries = [GUARD_BUFFER] if guarded else []
    helpers: dict[tuple[str, str], None] = {}
    for program in programs:
        check_symbol(program.symbol)
        calls[program.symbol] = units.calls(program)
        entries += _entry_functions(program, calls[program.symbol], helpers, GUARD if guarded else 0)
    whole = None
    if graph is not None:
        plan = plan_whole_program(whole_symbol, graph, {p.symbol: p for p in programs}, calls)
        source, whole = emit_whole_program(plan, guarded)
        entries += [NATIVES, source.text, POOL, LOOPS]
        helpers.update(dict.fromkeys(source.helpers))
    used: dict[str, Unit] = {}
    origins: dict[str, dict[str, None]] = {}
    for call in (c for made in calls.values() for c in made):
        used.setdefault(call.unit.name, call.unit)
        origins.setdefault(call.unit.name, {}).update(dict.fromkeys(call.origin))
    names = {name: tuple(origin) for name, origin in origins.items()}
    return LibrarySource(tuple(used.values()), names, tuple(entries), tuple(helpers), whole)


def _entry_functions(
    program: Program, calls: Sequence[GroupCall], helpers: dict[tuple[str, str], None], guard: int = 0
) -> tuple[str, str]:
    """The two functions of a symbol; adds to *helpers* what they call."""
    plan = plan_workspace(program, guard)
    names, exprs = _symbol_names(program)
    _, more = _symbol_names(program)
    functions = _workspace_function(program, plan, more), _entry(program, plan, calls, names, exprs)
    helpers.update(exprs.helpers)
    helpers.update(more.helpers)
    return functions


def emit_programs(programs: Sequence[Program], machine: Machine) -> str:
    """One C source with the functions of all *programs*. Raises CompileError for a function that C cannot express."""
    return emit_library(programs, machine).text()


def _symbol_names(program: Program) -> tuple[Names, ExprWriter]:
    names = Names(RESERVED | {program.symbol, f"{program.symbol}_workspace", "offset"})
    return names, ExprWriter(C, names, Simplifier())


def _byte_count(tensor: Tensor, exprs: ExprWriter, precedence: int = 0) -> str:
    """The bytes of a tensor, as C."""
    count: PrimExpr = as_index(dtype_bytes(tensor.dtype))
    for dim in tensor.shape:
        count = binary("mul", count, as_index(dim))
    return exprs.text(exprs.simplify(count), precedence)


def _aligned_count(tensor: Tensor, exprs: ExprWriter, guard: int) -> str:
    """The aligned bytes of a tensor of symbolic size with its guards, as C."""
    return f"({_byte_count(tensor, exprs, 13)} + {ALIGNMENT - 1 + 2 * guard}) / {ALIGNMENT} * {ALIGNMENT}"


def _declare_sizes(writer: Writer, program: Program, exprs: ExprWriter, used: Sequence[str]) -> None:
    for k, name in enumerate(program.sizes):
        if name in used:
            writer.line(f"const int64_t {exprs.names(Size(name), name)} = sizes[{k}];")
    if not used:
        writer.line("(void)sizes;")


def _workspace_function(program: Program, plan: WorkspacePlan, exprs: ExprWriter) -> str:
    """``int64_t <symbol>_workspace(const int64_t *sizes)``: the bytes that one call needs."""
    writer = Writer()
    used = _sizes_of(plan.symbolic)
    writer.line(f"int64_t {program.symbol}_workspace(const int64_t *sizes);")
    with writer.block(f"int64_t {program.symbol}_workspace(const int64_t *sizes) {{"):
        _declare_sizes(writer, program, exprs, used)
        terms = [str(plan.static_bytes), *(_aligned_count(t, exprs, plan.guard) for t in plan.symbolic)]
        writer.line(f"return {' + '.join(terms)};")
    return writer.text()


def _sizes_of(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    dims = [d for t in tensors for d in t.shape if isinstance(d, PrimExpr)]
    return tuple(dict.fromkeys(n.name for d in dims for n in unique_nodes(d) if isinstance(n, Size)))


def _entry(program: Program, plan: WorkspacePlan, calls: Sequence[GroupCall], names: Names, exprs: ExprWriter) -> str:
    """The exported function: places the buffers and calls the groups in order."""
    for call in calls:
        names.reserve(call.unit.name)
    writer = Writer()
    signature = f"int32_t {program.symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team)"
    used = tuple(dict.fromkeys((*(s for c in calls for s in c.sizes), *_sizes_of(plan.symbolic), *_batch(program))))
    writer.line(f"{signature};")
    with writer.block(f"{signature} {{"):
        _declare_sizes(writer, program, exprs, used)
        if not program.temporaries:
            writer.line("(void)workspace;")
        _declare_arguments(writer, program, names, {t for c in calls for t in c.sources})
        _declare_temporaries(writer, plan, names, exprs)
        for tensor in program.temporaries if plan.guard else ():
            writer.line(f"guard_buffer({names(tensor, tensor.name)}, {_byte_count(tensor, exprs)});")
        if program.batch is not None:
            _item_loop(writer, program, calls, names)
        else:
            _calls(writer, program, calls, names)
        writer.line("return run_status(team);")
    return writer.text()


def _batch(program: Program) -> tuple[str, ...]:
    return (program.batch.name,) if isinstance(program.batch, Size) else ()


def _calls(writer: Writer, program: Program, calls: Sequence[GroupCall], names: Names) -> None:
    for k, call in enumerate(calls):
        arguments = [names(t, t.name) for t in (*call.sources, *call.stages)]
        arguments += [names(Size(s), s) for s in call.sizes]
        arguments += HOSTED.check_arguments(program.signature.check_numbers(call.checks))
        if k:
            writer.line("if (team_wait(team)) return run_status(team);")
        writer.line(f"{call.unit.name}({', '.join([*arguments, 'team'])});")


def _item_loop(writer: Writer, program: Program, calls: Sequence[GroupCall], names: Names) -> None:
    """The *calls* for one item of the batch after the other: the arguments that hold a batch move on."""
    item, used = names.fresh("item"), {t for c in calls for t in (*c.sources, *c.stages)}
    signature, batch = program.signature, program.batch
    assert batch is not None
    count = names(batch, batch.name) if isinstance(batch, Size) else str(batch)
    pairs = [*zip(program.inputs, signature.inputs, strict=True), *zip(program.outputs, signature.outputs, strict=True)]
    with writer.block(f"for (int64_t {item} = 0; {item} < {count}; ++{item}) {{"):
        writer.line(f"if ({item} > 0 && team_wait(team)) return run_status(team);")
        _calls(writer, program, calls, names)
        moving = [t for t, spec in pairs if t in used and holds_batch(spec.shape, batch)]
        for tensor in dict.fromkeys(moving):
            writer.line(f"{names(tensor, tensor.name)} += {estimated_size(tensor.shape)};")


def _declare_arguments(writer: Writer, program: Program, names: Names, used: set[Tensor]) -> None:
    constants = [t for t, _ in program.constants]
    if not (*program.inputs, *constants, *program.outputs):
        writer.line("(void)args;")
    for k, tensor in enumerate((*program.inputs, *constants)):
        if tensor in used:
            writer.line(f"const {TYPES[tensor.dtype]} *{names(tensor, tensor.name)} = args[{k}];")
    first = len(program.inputs) + len(constants)
    for k, tensor in enumerate(program.outputs, first):
        writer.line(f"{TYPES[tensor.dtype]} *{names(tensor, tensor.name)} = args[{k}];")


def _declare_temporaries(writer: Writer, plan: WorkspacePlan, names: Names, exprs: ExprWriter) -> None:
    for tensor, offset in plan.offsets.items():
        ctype = TYPES[tensor.dtype]
        writer.line(f"{ctype} *{names(tensor, tensor.name)} = ({ctype} *)(workspace + {offset});")
    if plan.symbolic:
        writer.line(f"int64_t offset = {plan.static_bytes + plan.guard};")
    for k, tensor in enumerate(plan.symbolic):
        ctype = TYPES[tensor.dtype]
        writer.line(f"{ctype} *{names(tensor, tensor.name)} = ({ctype} *)(workspace + offset);")
        if k + 1 < len(plan.symbolic):
            writer.line(f"offset += {_aligned_count(tensor, exprs, plan.guard)};")
