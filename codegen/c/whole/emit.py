"""The C text of a whole program: where each buffer lies, and one call after the other, with a barrier between.

``int32_t <symbol>(void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals)``.
Where every size is a number, the arena is planned here and offsets are numbers; else they follow the sizes, planned
when the sizes are known from what ``<symbol>_buffers`` returns. The steps of one item of a batch stand in a loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from byoc.codegen.c.language.dialect import HOSTED
from byoc.codegen.c.language.spellings import RESERVED, TYPES, C
from byoc.codegen.c.toolchain.sanitizers import GUARD
from byoc.codegen.c.whole.program import (
    ARENA,
    CONSTANT,
    INPUT,
    CallStep,
    CopyStep,
    ExternalStep,
    ProgramBuffer,
    ProgramStep,
    WholePlan,
)
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.simplify import Simplifier, as_index
from byoc.codegen.kernel.spelling import short_name
from byoc.codegen.kernel.writer import Names, Writer, comment_text
from byoc.ir.types import dtype_bytes
from byoc.runtime.dso.whole_program import WholeProgram
from byoc.te import Dimension, PrimExpr, Size, binary
from byoc.te.walk import unique_nodes

PARAMETERS = "void **args, const int64_t *sizes, uint8_t *workspace, const Team *team, Externals *externals"
_WAIT = "if (team_wait(team)) return run_status(team);"
_OWN_NAMES = frozenset(["externals", "status", "stopped", "offsets", "bytes", "call_external", "Externals", "arrays"])


def emit_whole_program(plan: WholePlan, guarded: bool = False) -> tuple[WholeSource, WholeProgram]:
    """The C of *plan*, and its description for the runtime.

    Where it is *guarded*, each buffer of the arena has a place of its own, with bytes around it that the address
    sanitizer is instructed to refuse.
    """
    return _WholeWriter(plan, guarded).run()


@dataclass(frozen=True)
class WholeSource:
    """The text of the program's functions, and the helpers that it calls."""

    text: str
    helpers: tuple[tuple[str, str], ...]


class _WholeWriter:
    def __init__(self, plan: WholePlan, guarded: bool = False):
        self.plan, self.writer = plan, Writer()
        units = {step.call.unit.name for step in plan.steps if isinstance(step, CallStep)}
        self.names = Names(RESERVED | _OWN_NAMES | units | {plan.symbol, f"{plan.symbol}_buffers"})
        self.exprs = ExprWriter(C, self.names, Simplifier())
        self.guard = GUARD if guarded else 0
        self.lifetimes = plan.lifetimes(apart=guarded)
        self.checks = plan.checks()
        self.is_static = all(b.static_bytes is not None for b in self.lifetimes)

    def run(self) -> tuple[WholeSource, WholeProgram]:
        plan = self.plan
        arena: int | None = None
        if self.is_static:
            places, arena = plan.arena(self.guard)
            offsets = {b: str(place) for b, place in places.items()}
        else:
            ahead = f" + {self.guard}" if self.guard else ""
            offsets = {b: f"offsets[{k}]{ahead}" for k, b in enumerate(self.lifetimes)}
        self._function(offsets)
        text = self.writer.text() if self.is_static else f"{self.writer.text()}\n{self._buffers_function()}"
        lifetimes = () if self.is_static else tuple(self.lifetimes.values())
        return WholeSource(text, tuple(self.exprs.helpers)), WholeProgram(
            plan.symbol,
            tuple(plan.constants),
            plan.sizes,
            tuple(plan.externals),
            arena,
            lifetimes,
            plan.operations(),
            checks=self.checks,
            batch=dimension_text(plan.batch),
        )

    def _function(self, offsets: dict[ProgramBuffer, str]) -> None:
        plan, writer = self.plan, self.writer
        signature = f"int32_t {plan.symbol}({PARAMETERS})"
        writer.line(f"{signature};")
        writer.line(f"/* The whole model. {self._types()} */")
        with writer.block(f"{signature} {{"):
            sizes = [s for step in plan.steps for s in _step_sizes(step)]
            self._declare_sizes([*sizes, plan.batch.name] if isinstance(plan.batch, Size) else sizes)
            if not self.is_static:
                writer.line(f"const int64_t *offsets = sizes + {len(plan.sizes)};")
            for name, used in (("args", plan.steps), ("workspace", self.lifetimes), ("externals", plan.externals)):
                if not used:
                    writer.line(f"(void){name};")
            in_loop = [b for b in plan.buffers if b.of_item and b.kind != ARENA]
            for buffer in (b for b in plan.buffers if b not in in_loop):
                self._declare(buffer, offsets)
            if self.guard and self.lifetimes:
                self._guard_buffers()
            items = plan.item_steps
            first = plan.steps[: len(plan.steps) - len(items)]
            self._steps(first)
            if items:
                self._item_loop(items, in_loop, bool(first))
            writer.line("return run_status(team);")

    def _steps(self, steps: Sequence[ProgramStep]) -> None:
        for k, step in enumerate(steps):
            if k:
                self.writer.line(_WAIT)
            _STEPS[type(step)](self, step)

    def _item_loop(self, steps: Sequence[ProgramStep], arguments: Sequence[ProgramBuffer], goes_on: bool) -> None:
        """*steps* for one item of the batch after the other, whose *arguments* lie one behind the other.

        It *goes_on* after steps that came before.
        """
        item, batch = self.names.fresh("item"), self.plan.batch
        count = self.names(batch, batch.name) if isinstance(batch, Size) else str(batch)
        with self.writer.block(f"for (int64_t {item} = 0; {item} < {count}; ++{item}) {{"):
            self.writer.line(_WAIT if goes_on else f"if ({item} > 0 && team_wait(team)) return run_status(team);")
            for buffer in arguments:
                self._declare(buffer, {}, f" + {item} * {self._bytes(buffer)}")
            self._steps(steps)

    def _guard_buffers(self) -> None:
        with self.writer.block("if (team->thread == 0) {"):
            for buffer in self.lifetimes:
                self.writer.line(f"guard_buffer({self.names(buffer, buffer.name)}, {self._bytes(buffer)});")
        self.writer.line(_WAIT)

    def _types(self) -> str:
        """``x: f32[batch, 6], w: … -> y: …``"""
        plan = self.plan
        inputs, outputs = (", ".join(f"{b.name}: {_type(b)}" for b in bs) for bs in (plan.inputs, plan.outputs))
        return comment_text(f"{inputs} -> {outputs}")

    def _declare_sizes(self, used: list[str]) -> None:
        for k, name in enumerate(self.plan.sizes):
            if name in used:
                self.writer.line(f"const int64_t {self.names(Size(name), name)} = sizes[{k}];")
        if self.is_static and not set(used) & set(self.plan.sizes):
            self.writer.line("(void)sizes;")

    def _declare(self, buffer: ProgramBuffer, offsets: dict[ProgramBuffer, str], ahead: str = "") -> None:
        """The variable of *buffer*; an argument lies *ahead* of its address by so many bytes."""
        name = self.names(buffer, buffer.name)
        ctype = TYPES.get(buffer.dtype, "void")
        const = "const " if buffer.kind in (INPUT, CONSTANT) else ""
        if buffer.kind == ARENA:
            place = f"({ctype} *)(workspace + {offsets[buffer]})"
        elif ahead:
            place = f"(const void *)((const uint8_t *)args[{self._argument(buffer)}]{ahead})"
            place = place if const else f"(void *)((uint8_t *)args[{self._argument(buffer)}]{ahead})"
        else:
            place = f"args[{self._argument(buffer)}]"
        self.writer.line(f"{const}{ctype} *{name} = {place};")

    def _argument(self, buffer: ProgramBuffer) -> int:
        """The position of an input, a constant or an output among the arguments."""
        before = 0 if buffer.kind == INPUT else len(self.plan.inputs)
        if buffer.kind not in (INPUT, CONSTANT):
            before += len(self.plan.constants)
        return before + buffer.position

    def _call(self, step: CallStep) -> None:
        arguments = [self.names(b, b.name) for b in step.buffers]
        arguments += [self.names(Size(s), s) for s in step.call.sizes]
        arguments += HOSTED.check_arguments([self.checks.index(c) for c in step.call.checks])
        self.writer.line(f"{step.call.unit.name}({', '.join([*arguments, 'team'])});")

    def _external(self, step: ExternalStep) -> None:
        arrays = ", ".join(self.names(b, b.name) for b in step.buffers)
        call = f"call_external(externals, {step.position}, arrays, team)"
        with self.writer.block("{"):
            self.writer.line(f"const void *arrays[] = {{{arrays or '0'}}};")
            self.writer.line(f"const int32_t stopped = {call};")
            self.writer.line("if (stopped) return stopped;")

    def _copy(self, step: CopyStep) -> None:
        source, target = (self.names(b, b.name) for b in step.buffers)
        self.writer.line(f"if (team->thread == 0) memcpy({target}, {source}, {self._bytes(step.buffers[0])});")

    def _bytes(self, buffer: ProgramBuffer) -> str:
        count: PrimExpr = as_index(dtype_bytes(buffer.dtype))
        for dim in buffer.shape:
            count = binary("mul", count, as_index(dim))
        return self.exprs.text(self.exprs.simplify(count))

    def _buffers_function(self) -> str:
        """``void <symbol>_buffers(const int64_t *sizes, int64_t *bytes)``."""
        self.writer = writer = Writer()
        signature = f"void {self.plan.symbol}_buffers(const int64_t *sizes, int64_t *bytes)"
        writer.line(f"{signature};")
        with writer.block(f"{signature} {{"):
            self._declare_sizes([n for b in self.lifetimes for n in _buffer_sizes(b)])
            for k, buffer in enumerate(self.lifetimes):
                guards = f" + {2 * self.guard}" if self.guard else ""
                writer.line(f"bytes[{k}] = {self._bytes(buffer)}{guards};")
        return writer.text()


def dimension_text(dim: Dimension | None) -> str:
    """The name or the number of *dim*; empty for none."""
    return "" if dim is None else dim.name if isinstance(dim, Size) else str(dim)


def _type(buffer: ProgramBuffer) -> str:
    dims = ", ".join(map(dimension_text, buffer.shape))
    return f"{short_name(buffer.dtype)}[{dims}]"


def _buffer_sizes(buffer: ProgramBuffer) -> list[str]:
    dims = [d for d in buffer.shape if isinstance(d, PrimExpr)]
    return [n.name for d in dims for n in unique_nodes(d) if isinstance(n, Size)]


def _step_sizes(step: ProgramStep) -> list[str]:
    if isinstance(step, CallStep):
        return list(step.call.sizes)
    return _buffer_sizes(step.buffers[0]) if isinstance(step, CopyStep) else []


_STEPS: dict[type, Callable[..., None]] = {
    CallStep: _WholeWriter._call,
    ExternalStep: _WholeWriter._external,
    CopyStep: _WholeWriter._copy,
}
