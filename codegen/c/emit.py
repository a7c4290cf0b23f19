"""C source from Programs: one static function a group, and per symbol an entry and the size of its workspace.

``int32_t <symbol>(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team)`` takes inputs, constants and
outputs in the order of the signature; each thread of the team calls it. The source has no global state, compiles without a warning under ``-Wall -Wextra``, and is the
same text whenever it is made for the same programs and machine.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.codegen.c.language import RESERVED, SUPPORT, TYPES, C
from byoc.codegen.c.machine import Machine
from byoc.codegen.c.schedule import schedule_stage
from byoc.codegen.c.statements import StatementWriter
from byoc.codegen.c.team import DEFINITIONS, shared
from byoc.codegen.c.vectors import vector_support
from byoc.codegen.c.workspace import ALIGNMENT, WorkspacePlan, plan_workspace
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.inline import loaded_tensors, unique_nodes
from byoc.codegen.kernel.loops import Barrier
from byoc.codegen.kernel.names import Names, comment_text
from byoc.codegen.kernel.program import Group, Program
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Writer
from byoc.errors import CompileError
from byoc.ir.types import dtype_bytes
from byoc.te import PrimExpr, Size, Tensor, binary

HEADERS = ("math.h", "stdbool.h", "stdint.h", "string.h")
LONGEST_ORIGIN = 400


@dataclass(frozen=True)
class _Function:
    """A group's C function: its name, text, and parameters in order."""

    name: str
    text: str
    sources: tuple[Tensor, ...]
    stages: tuple[Tensor, ...]
    sizes: tuple[str, ...]


class _Emitter:
    def __init__(self, machine: Machine):
        self.machine = machine
        self.functions = Names(RESERVED)
        self.helpers: dict[tuple[str, str], None] = {}
        self.vectors: dict[tuple[str, int], None] = {}

    def group(self, group: Group) -> _Function:
        """The C function of a group."""
        names, simplify = Names(RESERVED), Simplifier()
        sources = tuple(
            dict.fromkeys(t for s in group.stages for t in loaded_tensors(s.body) if t not in group.stages)
        )
        sizes = group_sizes(group)
        exprs = ExprWriter(C, names, simplify)
        parameters = [f"const {TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in sources]
        parameters += [f"{TYPES[t.dtype]} *restrict {names(t, t.name)}" for t in group.stages]
        parameters += [f"int64_t {names(Size(s), s)}" for s in sizes]
        parameters.append("const Team *team")
        writer = Writer()
        statements = StatementWriter(writer, exprs)
        # "op_": gcc knows a function abs, and round, and index, whatever the headers
        name = self.functions.fresh(group.name if group.name.startswith("fused_") else f"op_{group.name}")
        writer.line(f"/* {self._comment(group, sources)} */")
        with writer.block(f"static void {name}({', '.join(parameters)}) {{"):
            for k, stage in enumerate(group.stages):
                if k:
                    statements.block([Barrier()])
                statements.block(shared(schedule_stage(stage, simplify, self.machine)))
            if not statements.meets:
                writer.line("(void)team;")
        self.helpers.update(exprs.helpers)
        self.vectors.update(statements.vectors)
        return _Function(name, writer.text(), sources, group.stages, sizes)

    def _comment(self, group: Group, sources: Sequence[Tensor]) -> str:
        """``data: f32[1, 3, 8, 8], w: … -> out: …; from Conv_0, Relu_1``"""
        arrow = f"{', '.join(map(_notation, sources))} -> {_notation(group.stages[-1])}".strip()
        origin = ", ".join(group.origin)
        shown = origin if len(origin) <= LONGEST_ORIGIN else f"{origin[:LONGEST_ORIGIN]}..."
        return comment_text(f"{arrow}; from {shown}" if shown else arrow)

    def program(self, program: Program) -> str:
        """The functions of one symbol."""
        check_symbol(program.symbol)
        functions = [self.group(g) for g in program.groups]
        plan = plan_workspace(program)
        parts = [f.text for f in functions]
        return "\n".join([*parts, _workspace_function(program, plan), _entry(program, plan, functions)])


def check_symbol(symbol: str) -> None:
    """Raises CompileError unless *symbol* can be the name of an exported C function."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", symbol) or symbol in RESERVED:
        raise CompileError(f"symbol {symbol!r} cannot be the name of a C function: use letters, digits and underscores")


def emit_programs(programs: Sequence[Program], machine: Machine) -> str:
    """One C source with the functions of all *programs*. Raises CompileError for a function that C cannot express."""
    emitter = _Emitter(machine)
    for program in programs:
        check_symbol(program.symbol)
        emitter.functions.reserve(program.symbol)
        emitter.functions.reserve(f"{program.symbol}_workspace")
    bodies = [emitter.program(p) for p in programs]
    parts = ["\n".join(f"#include <{h}>" for h in HEADERS) + "\n"]
    parts.append(DEFINITIONS)
    parts += [text + "\n" for text in vector_support(tuple(emitter.vectors))]
    parts += [SUPPORT[name](dtype) + "\n" for name, dtype in emitter.helpers]
    return "\n".join([*parts, *bodies])


def group_sizes(group: Group) -> tuple[str, ...]:
    """The names of the sizes on which the code of *group* depends, in the order of their first use."""
    found: dict[str, None] = {}
    for stage in group.stages:
        nodes = [n for n in unique_nodes(stage.body)]
        tensors = (stage, *loaded_tensors(stage.body))
        dims = [d for t in tensors for d in t.shape]
        dims += [a.extent for n in nodes for a in getattr(n, "axes", ())]
        for expr in (*nodes, *(d for d in dims if isinstance(d, PrimExpr))):
            found.update((n.name, None) for n in unique_nodes(expr) if isinstance(n, Size))
    return tuple(found)


def _notation(tensor: Tensor) -> str:
    dims = ", ".join(d.name if isinstance(d, Size) else str(d) if isinstance(d, int) else "?" for d in tensor.shape)
    return f"{tensor.name}: {short_name(tensor.dtype)}[{dims}]"


def _symbol_names(program: Program) -> tuple[Names, ExprWriter]:
    names = Names(RESERVED | {program.symbol, f"{program.symbol}_workspace", "offset"})
    return names, ExprWriter(C, names, Simplifier())


def _byte_count(tensor: Tensor, exprs: ExprWriter) -> str:
    """The aligned bytes of a tensor of symbolic size, as C."""
    count: PrimExpr = as_index(dtype_bytes(tensor.dtype))
    for dim in tensor.shape:
        count = binary("mul", count, as_index(dim))
    text = exprs.text(exprs.simplify(count), 13)
    return f"({text} + {ALIGNMENT - 1}) / {ALIGNMENT} * {ALIGNMENT}"


def _declare_sizes(writer: Writer, program: Program, exprs: ExprWriter, used: Sequence[str]) -> None:
    for k, name in enumerate(program.sizes):
        if name in used:
            writer.line(f"const int64_t {exprs.names(Size(name), name)} = sizes[{k}];")
    if not used:
        writer.line("(void)sizes;")


def _workspace_function(program: Program, plan: WorkspacePlan) -> str:
    """``int64_t <symbol>_workspace(const int64_t *sizes)``: the bytes that one call needs."""
    _, exprs = _symbol_names(program)
    writer = Writer()
    used = _sizes_of(plan.symbolic)
    writer.line(f"int64_t {program.symbol}_workspace(const int64_t *sizes);")
    with writer.block(f"int64_t {program.symbol}_workspace(const int64_t *sizes) {{"):
        _declare_sizes(writer, program, exprs, used)
        terms = [str(plan.static_bytes), *(_byte_count(t, exprs) for t in plan.symbolic)]
        writer.line(f"return {' + '.join(terms)};")
    return writer.text()


def _sizes_of(tensors: Sequence[Tensor]) -> tuple[str, ...]:
    dims = [d for t in tensors for d in t.shape if isinstance(d, PrimExpr)]
    return tuple(dict.fromkeys(n.name for d in dims for n in unique_nodes(d) if isinstance(n, Size)))


def _entry(program: Program, plan: WorkspacePlan, functions: Sequence[_Function]) -> str:
    """The exported function: places the buffers and calls the groups in order."""
    names, exprs = _symbol_names(program)
    for f in functions:
        names.reserve(f.name)
    writer = Writer()
    signature = f"int32_t {program.symbol}(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team)"
    used = tuple(dict.fromkeys((*(s for f in functions for s in f.sizes), *_sizes_of(plan.symbolic))))
    writer.line(f"{signature};")
    with writer.block(f"{signature} {{"):
        _declare_sizes(writer, program, exprs, used)
        if not program.temporaries:
            writer.line("(void)workspace;")
        if not functions:
            writer.line("(void)team;")
        _declare_arguments(writer, program, names, {t for f in functions for t in f.sources})
        _declare_temporaries(writer, plan, names, exprs)
        for k, f in enumerate(functions):
            arguments = [names(t, t.name) for t in (*f.sources, *f.stages)]
            arguments += [names(Size(s), s) for s in f.sizes]
            arguments.append("team")
            if k:
                writer.line("team_wait(team);")
            writer.line(f"{f.name}({', '.join(arguments)});")
        writer.line("return 0;")
    return writer.text()


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
        writer.line(f"int64_t offset = {plan.static_bytes};")
    for k, tensor in enumerate(plan.symbolic):
        ctype = TYPES[tensor.dtype]
        writer.line(f"{ctype} *{names(tensor, tensor.name)} = ({ctype} *)(workspace + offset);")
        if k + 1 < len(plan.symbolic):
            writer.line(f"offset += {_byte_count(tensor, exprs)};")
