"""``<symbol>.c``: the functions of the groups, and the one that calls them in order with the places of all values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from byoc.codegen.c.export.interface import Interface
from byoc.codegen.c.export.options import ARRAYS, INCLUDED, SEPARATE, ExportOptions, joined
from byoc.codegen.c.export.weights import Weight, Weights
from byoc.codegen.c.language.dialect import Dialect
from byoc.codegen.c.language.spellings import RESERVED, TYPES
from byoc.codegen.c.vectors.vectors import vector_support
from byoc.codegen.c.whole.program import ARENA, CONSTANT, INPUT, CallStep, CopyStep, ProgramBuffer, WholePlan
from byoc.codegen.c.whole.support import PREAMBLE
from byoc.codegen.c.whole.unit import Unit, function_texts
from byoc.codegen.kernel.writer import Names, Writer, comment_text
from byoc.ir.types import dtype_bytes

_HEADERS = "".join(f"#include <{h}>\n" for h in ("math.h", "stdbool.h", "stdint.h", "string.h"))


@dataclass(frozen=True)
class Places:
    """Where the values lie: arena offsets of buffers, and the weight of each constant, by its position."""

    offsets: Mapping[ProgramBuffer, int]
    constants: Sequence[Weight]


def write_model(
    plan: WholePlan, interface: Interface, places: Places, weights: Weights, form: str, options: ExportOptions
) -> str:
    """The source of the model. Requires a plan without sizes and externals."""
    origins: dict[str, dict[str, None]] = {}
    units: dict[str, Unit] = {}
    for call in (step.call for step in plan.steps if isinstance(step, CallStep)):
        units.setdefault(call.unit.name, call.unit)
        origins.setdefault(call.unit.name, {}).update(dict.fromkeys(call.origin))
    own = [f'#include "{options.symbol}.h"\n']
    if form != SEPARATE and weights.arrays:
        own.append(f'#include "{options.symbol}_weights.h"\n')
    functions = [f"{u.comment(origins[u.name])}static {u.text}" for u in units.values()]
    return joined(
        [
            f"/* {comment_text(interface.title)}, written by byoc. Nothing here changes but what a caller gives. */\n",
            "".join(own),
            PREAMBLE if options.dialect.team else _HEADERS,
            _check(options),
            *_definitions(list(units.values()), options.dialect),
            *functions,
            _Entry(plan, interface, places, weights, form, options).text(),
        ]
    )


def _definitions(units: Sequence[Unit], dialect: Dialect) -> list[str]:
    """The vector types and helpers that *units* use, each once."""
    vectors = tuple(dict.fromkeys(v for u in units for v in u.vectors))
    helpers = dict.fromkeys(h for u in units for h in u.helpers)
    support = dialect.language.support
    return [
        *(f"{t}\n" for t in vector_support(vectors)),
        *(f"{support[n](dtype)}\n" for n, dtype in helpers),
        *function_texts(units),
    ]


def _check(options: ExportOptions) -> str:
    """What stops a compiler that writes for another processor than the code is for."""
    if options.macro is None:
        return ""
    macro, called = options.macro
    advice = f"compile with {' '.join(options.flags)} on such a machine, or export again with --march or --portable"
    return f'#ifndef {macro}\n#error "this code is for processors with {called}: {advice}"\n#endif\n'


class _Entry:
    def __init__(
        self,
        plan: WholePlan,
        interface: Interface,
        places: Places,
        weights: Weights,
        form: str,
        options: ExportOptions,
    ):
        self.plan, self.interface, self.places, self.weights = plan, interface, places, weights
        self.form, self.options, self.writer = form, options, Writer()
        units = {step.call.unit.name for step in plan.steps if isinstance(step, CallStep)}
        words = {"arena", "weights", "memory", "status", "thread", "threads", "meeting", "parts", "run", "one", "part"}
        words |= {"outside", *interface.pointers()}
        self.names = Names(RESERVED | units | words | {w.name for w in weights.arrays})

    def text(self) -> str:
        """The functions that a user calls, and what they share."""
        symbol, team = self.options.symbol, self.options.dialect.team
        parameters = self.interface.parameters()
        self._steps(parameters)
        self._check_arguments(parameters)
        arguments = [*self.interface.pointers(), "arena", *(["weights"] if self.interface.weights else [])]
        checked = f"const int status = {symbol}_check({', '.join(arguments)});"
        self.writer.line()
        with self._function(f"int {symbol}_run", parameters):
            self.writer.line(checked)
            self.writer.line(f"if (status != {symbol.upper()}_OK) return status;")
            if team:
                self.writer.line("Run run = {0};")
                self.writer.line("const Team one = {0, 1, 0, &run};")
            checks, bad = self.interface.checks, f"{symbol.upper()}_INDEX_OUT_OF_RANGE"
            if checks and not team:
                self.writer.line("int outside = 0;")
            state = ["&one"] if team else ["&outside"] if checks else []
            self.writer.line(f"{symbol}_steps({', '.join([*arguments, *state])});")
            if checks:
                self.writer.line(f"return {'run.asked' if team else 'outside'} ? {bad} : status;")
            else:
                self.writer.line("return status;")
        if team:
            self._part(checked, arguments)
        return self.writer.text()

    def _part(self, checked: str, arguments: Sequence[str]) -> None:
        symbol = self.options.symbol
        parameters = [*self.interface.parameters(), "int thread", "int threads", f"{symbol}_meeting *meeting"]
        self.writer.line()
        with self._function(f"int {symbol}_run_part", parameters):
            self.writer.line(checked)
            self.writer.line(f"if (status != {symbol.upper()}_OK) return status;")
            self.writer.line(f"if (!meeting) return {symbol.upper()}_NULL_POINTER;")
            self.writer.line(f"if (thread < 0 || thread >= threads) return {symbol.upper()}_BAD_THREAD;")
            self.writer.line("Run run = {0};")
            self.writer.line("const Team part = {thread, threads, meeting->counts, &run};")
            self.writer.line(f"{symbol}_steps({', '.join([*arguments, '&part'])});")
            if self.interface.checks:
                self.writer.line("if (run.asked) __atomic_store_n(meeting->counts + 8, 1, __ATOMIC_RELEASE);")
            self.writer.line("team_wait(&part);")
            if self.interface.checks:
                self._agree()
            self.writer.line("return status;")

    def _agree(self) -> None:
        """Where a thread found an index outside its dimension, all return that, and the meeting is as it was."""
        with self.writer.block("if (__atomic_load_n(meeting->counts + 8, __ATOMIC_ACQUIRE)) {"):
            self.writer.line("team_wait(&part);")
            self.writer.line("if (thread == 0) __atomic_store_n(meeting->counts + 8, 0, __ATOMIC_RELEASE);")
            self.writer.line("team_wait(&part);")
            self.writer.line(f"return {self.options.symbol.upper()}_INDEX_OUT_OF_RANGE;")

    def _function(self, head: str, parameters: Sequence[str]) -> AbstractContextManager[None]:
        return self.writer.block(f"{head}({', '.join(parameters)}) {{")

    def _check_arguments(self, parameters: Sequence[str]) -> None:
        upper = self.options.symbol.upper()
        pointers = self.interface.pointers()
        aligned = (["arena"] if self.interface.arena else []) + (["weights"] if self.interface.weights else [])
        typed = [p.replace("void *arena", "const void *arena") for p in parameters]
        typed = [p if p.startswith("const ") else f"const {p}" for p in typed]
        self.writer.line()
        with self._function(f"static int {self.options.symbol}_check", typed):
            if pointers or aligned:
                missing = " || ".join(f"!{p}" for p in (*pointers, *aligned))
                self.writer.line(f"if ({missing}) return {upper}_NULL_POINTER;")
            for name in aligned:
                macro = f"{upper}_{name.upper()}_ALIGNMENT"
                self.writer.line(f"if ((uintptr_t){name} % {macro} != 0) return {upper}_UNALIGNED;")
            if "arena" not in aligned:
                self.writer.line("(void)arena;")
            if self.interface.matrices:
                self.writer.line(f"if (!matrices_permitted()) return {upper}_NO_MATRICES;")
            self.writer.line(f"return {upper}_OK;")

    def _steps(self, parameters: Sequence[str]) -> None:
        plan, writer, team = self.plan, self.writer, self.options.dialect.team
        state = ["const Team *team"] if team else ["int *outside"] if self.interface.checks else []
        typed = [*parameters, *state]
        with self._function(f"static void {self.options.symbol}_steps", typed):
            self._bases()
            for buffer in plan.buffers:
                self._declare(buffer)
            for name in self._unused():
                writer.line(f"(void){name};")
            for k, step in enumerate(plan.steps):
                if k and team:
                    writer.line("team_wait(team);")
                if isinstance(step, CallStep):
                    arguments = [*map(self._name, step.buffers)]
                    arguments += self.options.dialect.check_arguments([0] * len(step.call.checks))
                    arguments += ["team"] if team else []
                    writer.line(f"{step.call.unit.name}({', '.join(arguments)});")
                elif isinstance(step, CopyStep):
                    source, target = step.buffers
                    alone = "if (team->thread == 0) " if team else ""
                    size = math.prod(source.shape) * dtype_bytes(source.dtype)
                    writer.line(f"{alone}memcpy({self._name(target)}, {self._name(source)}, {size});")

    def _bases(self) -> None:
        """The arena and the weights as bytes."""
        if self.places.offsets:
            self.writer.line("uint8_t *const memory = arena;")
        if self._has_constants() and self.form == INCLUDED:
            self.writer.line(f"const uint8_t *const weights = {self.options.symbol}_weights;")

    def _has_constants(self) -> bool:
        return any(b.kind == CONSTANT for b in self.plan.buffers)

    def _unused(self) -> list[str]:
        used = {self._name(b) for b in self.plan.buffers}
        names = [p for p in self.interface.pointers() if p not in used]
        names += [] if self.places.offsets else ["arena"]
        return names if self.plan.steps or not self.options.dialect.team else [*names, "team"]

    def _name(self, buffer: ProgramBuffer) -> str:
        if buffer.kind == CONSTANT and self.form == ARRAYS:
            return self.places.constants[buffer.position].name
        if buffer.kind in (ARENA, CONSTANT):
            return self.names(buffer, buffer.name)
        arguments = self.interface.inputs if buffer.kind == INPUT else self.interface.outputs
        return arguments[buffer.position].identifier

    def _declare(self, buffer: ProgramBuffer) -> None:
        """A pointer to a value in the arena, or to a constant in a file."""
        ctype, name = TYPES[buffer.dtype], self._name(buffer)
        if buffer.kind == ARENA:
            self.writer.line(f"{ctype} *const {name} = ({ctype} *)(memory + {self.places.offsets[buffer]});")
        elif buffer.kind == CONSTANT and self.form == SEPARATE:
            self.writer.line(f"const {ctype} *const {name} = {self._constant(buffer, '(const uint8_t *)weights')};")
        elif buffer.kind == CONSTANT and self.form == INCLUDED:
            self.writer.line(f"const {ctype} *const {name} = {self._constant(buffer, 'weights')};")

    def _constant(self, buffer: ProgramBuffer, base: str) -> str:
        weight = self.places.constants[buffer.position]
        return f"(const {TYPES[buffer.dtype]} *)({base} + {weight.offset})"
