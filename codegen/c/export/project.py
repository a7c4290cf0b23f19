"""The folder of an exported model: its files by their names, the same bytes for the same model."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from byoc.codegen.c.backend import lower_to_c, workbench
from byoc.codegen.c.export.build_files import Peculiarities, write_makefile, write_readme
from byoc.codegen.c.export.example import write_example
from byoc.codegen.c.export.interface import Interface, name_arguments, write_header
from byoc.codegen.c.export.model_source import Places, write_model
from byoc.codegen.c.export.options import SEPARATE, ExportOptions
from byoc.codegen.c.export.weights import Weight, Weights
from byoc.codegen.c.language.matrix_registers import HELPER
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.program import CONSTANT, CallStep, WholePlan, no_whole_program, plan_whole_program
from byoc.codegen.c.whole.unit import Units
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.writer import comment_text
from byoc.codegen.tune.run_threads import run_threads
from byoc.codegen.tune.tuner import Tuner
from byoc.errors import CompileError
from byoc.relay.expr import Function
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.graph.graph import Graph


@dataclass(frozen=True)
class ModelNames:
    """What a model is called: its *title*, its *outputs* in order; *notes* for whoever reads about the folder."""

    title: str
    outputs: Sequence[str]
    notes: Sequence[str] = ()


def export_project(
    functions: Mapping[str, Function],
    graph: Graph,
    names: ModelNames,
    options: ExportOptions,
    tuner: Tuner | None = None,
) -> dict[str, bytes]:
    """The files for *graph*, which calls *functions* by their symbols; the cost models decide, or what *tuner* finds.

    Requires functions for all calls, and sizes that are numbers. Raises CompileError where that is not so.
    """
    check_inputs(graph)
    check_graph(graph)
    programs = _prepared([lower_to_c(f, symbol) for symbol, f in functions.items()], graph, options, tuner)
    units = Units(options.machine, options.dialect)
    calls = {p.symbol: units.calls(p) for p in programs}
    plan = plan_whole_program(options.symbol, graph, {p.symbol: p for p in programs}, calls)
    weights = Weights(options.symbol)
    constants = _constants(plan, {p.symbol: p for p in programs}, weights)
    form = options.weights_form(weights.size)
    offsets, arena = plan.arena()
    inputs = [graph.specs[node.outputs[0]] for node in graph.inputs]
    outputs = [
        TensorSpec(n, graph.specs[h].shape, graph.specs[h].dtype)
        for n, h in zip(names.outputs, graph.heads, strict=True)
    ]
    taken = [step.call.unit.name for step in plan.steps if isinstance(step, CallStep)]
    taken += [*weights.reserved, *(w.name for w in weights.arrays)]
    called = [step.call.unit for step in plan.steps if isinstance(step, CallStep)]
    stack = max((unit.local_bytes for unit in called), default=0)
    given = weights.size if form == SEPARATE else 0
    matrices = any(HELPER in unit.helpers for unit in called)
    interface = Interface(
        names.title,
        *name_arguments(inputs, outputs, taken),
        arena,
        stack,
        given,
        matrices,
        any(unit.checks for unit in called),
    )
    peculiar = Peculiarities.of(called, options)
    places = Places(offsets, constants)
    texts = {
        f"{options.symbol}.h": write_header(interface, options),
        f"{options.symbol}.c": write_model(plan, interface, places, weights, form, options),
        "main.c": write_example(interface, options),
        "Makefile": write_makefile(options, form, bool(weights.arrays), peculiar),
        "README.txt": write_readme(interface, options, form, bool(weights.arrays), peculiar) + _notes(names.notes),
    }
    return {**{name: text.encode() for name, text in texts.items()}, **weights.files(options, form)}


def _prepared(
    lowered: Sequence[Program], graph: Graph, options: ExportOptions, tuner: Tuner | None
) -> Sequence[Program]:
    """*lowered* with what is decided over several stages; *tuner* measures with the threads that may share a run."""
    if tuner is None or not tuner.tunes:
        return [prepare(program, options.machine, allowed=options.winograd) for program in lowered]
    compiler = dataclasses.replace(find_compiler(), machine=options.machine)
    flags = tuple(f for f in options.flags if f not in compiler.flags)
    threads = run_threads(graph, lowered) if options.dialect.team else 1
    return tuner.prepared(lowered, workbench(compiler, flags, options.winograd, threads))


def _notes(notes: Sequence[str]) -> str:
    return "".join(f"{comment_text(note)}\n" for note in ("", *notes)) if notes else ""


def check_inputs(graph: Graph) -> None:
    """Raises CompileError for an input with a size that is no number."""
    free = [graph.specs[n.outputs[0]] for n in graph.inputs]
    free = [spec for spec in free if not all(isinstance(d, int) for d in spec.shape)]
    if free:
        named = ", ".join(f"{s.name}[{', '.join('?' if d is None else str(d) for d in s.shape)}]" for s in free)
        example = ",".join(str(d) if isinstance(d, int) else "1" for d in free[0].shape)
        raise CompileError(
            f"the inputs {named} have free dimensions, and C that allocates nothing needs numbers: "
            f"fix them, as with --shape {free[0].name}={example}"
        )


def check_graph(graph: Graph) -> None:
    """Raises CompileError where a value's size is no number."""
    reason = no_whole_program(graph)
    if reason is not None:
        raise CompileError(f"the model cannot be one C function: {reason}")
    sizes = {d for spec in graph.specs.values() for d in spec.shape if not isinstance(d, int)}
    if sizes:
        raise CompileError(f"the sizes {', '.join(sorted(map(str, sizes)))} are known only when the model runs")


def _constants(plan: WholePlan, programs: Mapping[str, Program], weights: Weights) -> list[Weight]:
    """The weight of each constant of *plan*, in their order."""
    hints = {b.position: b.name for step in plan.steps for b in step.buffers if b.kind == CONSTANT}
    return [
        weights.add(hints.get(position, "constant"), programs[symbol].constants[number][1])
        for position, (symbol, number) in enumerate(plan.constants)
    ]
