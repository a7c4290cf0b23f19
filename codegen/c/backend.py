"""The C backend: any operator with a tensor expression, as C compiled by the host's compiler.

It is also what the host itself runs on: :meth:`CBackend.compile_functions` puts many functions into one library.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.codegen.c.emit import LibrarySource, emit_library
from byoc.codegen.c.toolchain.compiler import CCompiler, TranslationUnit, find_compiler
from byoc.codegen.c.toolchain.sanitizers import check_process
from byoc.codegen.c.toolchain.unit_flags import gather_flags, masked_load_flags, overflow_flags, rounding_flags
from byoc.codegen.c.whole.prepare import prepare
from byoc.codegen.c.whole.program import no_whole_program
from byoc.codegen.c.winograd.options import DEFAULT, WinogradOptions
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.lower import lower_function, opaque_call, unsupported_reason
from byoc.codegen.kernel.program import Program
from byoc.codegen.kernel.region import constant_arrays, fuse_body, generated_dtype, has_expression, known_shape
from byoc.codegen.tune import NO_TUNING
from byoc.codegen.tune.context import cache_sizes, context_of
from byoc.contract.backend import Backend
from byoc.errors import CompileError, CompilerNotFoundError
from byoc.ir.collector import paused_collector
from byoc.ir.op import Op
from byoc.ir.types import dtype_bytes
from byoc.relay.expr import Call, Function
from byoc.runtime.core.small_types import SMALL
from byoc.runtime.dso.module import DsoModule
from byoc.runtime.dso.whole_program import WholeProgram, contract_of, contract_text
from byoc.runtime.graph.graph import Graph

if TYPE_CHECKING:
    from byoc.codegen.c.routines.registry import Routine
    from byoc.codegen.tune.trials import HostBench

HIDDEN = ("-fvisibility=hidden",)  # what a group computes is called by the entries of its library alone
ENTRY_FLAGS = ("-O1",)  # entries place buffers and call: there is nothing to optimise
WHOLE_PROGRAM = "tvmgen_default_run"
CONTRACT = "byoc_contract"  # a constant of each library, which says what it was compiled for
TRIAL_SECONDS = 120.0  # that the compiler may take for a unit of candidates
LARGE_VALUE = 1 << 16  # bytes: of a model that makes none, nothing is asked of its batch
CONSTRAINTS = (has_expression, generated_dtype, known_shape)


def no_code_reason(function: Function) -> str | None:
    """Why no C can be generated for *function*: one sentence, or None when :func:`lower_to_c` takes it.

    Raises TypeInferenceError when its types do not fit.
    """
    found = _routine_of(function)
    if found is None:
        return unsupported_reason(function)
    from byoc.codegen.c.routines.lower import routine_refusal

    return routine_refusal(*found)


def lower_to_c(function: Function, symbol: str) -> Program:
    """*function* as the Program *symbol*: groups of stages, or the routine of its operator.

    Raises UnsupportedError naming the node when no C can be generated for it.
    """
    found = _routine_of(function)
    if found is None:
        return lower_function(function, symbol)
    from byoc.codegen.c.routines.lower import lower_routine

    return lower_routine(function, symbol, *found)


def has_routine(function: Function) -> bool:
    """Whether *function* is a call of an operator that has a routine."""
    return _routine_of(function) is not None


def _routine_of(function: Function) -> tuple[Call, Routine] | None:
    call = opaque_call(function)
    if call is None:
        return None
    from byoc.codegen.c.routines.registry import find_routine  # where there is one to be found

    assert isinstance(call.op, Op)
    routine = find_routine(call.op)
    return None if routine is None else (call, routine)


class CBackend(Backend):
    """Generated C. Options: ``flags``, ``layout``, ``tune``, and ``winograd``, ``max_error``, ``strict``.

    ``flags`` are more flags for the compiler, a sequence of strings; ``layout`` is in what layout the host's
    convolutions compute; ``tune`` says how much is tried for fast kernels: a level of ``byoc.codegen.tune.level``, or a
    Tuner. The last three say which convolutions may take Winograd's method (:meth:`WinogradOptions.of`).
    """

    name = "c"
    options = ("flags", "layout", "max_error", "strict", "tune", "winograd")
    constraints = CONSTRAINTS
    small_dtypes = tuple(SMALL)

    def unavailable(self) -> str | None:
        try:
            find_compiler()
        except CompilerNotFoundError as error:
            return str(error)
        return None

    def check_options(self, options: Mapping[str, object]) -> None:
        _flags(options)
        WinogradOptions.of(options, self.name)

    def compile(self, function: Function, options: Mapping[str, object]) -> DsoModule:
        symbol = function.attrs.get("global_symbol")
        if not isinstance(symbol, str):
            raise CompileError("a region needs the attribute global_symbol: the name under which it is called")
        return compile_functions({symbol: fuse_body(function)}, options)

    def compile_functions(self, functions: Mapping[str, Function], options: Mapping[str, object]) -> DsoModule:
        """As the function of the same name."""
        return compile_functions(functions, options)


def compile_functions(
    functions: Mapping[str, Function],
    options: Mapping[str, object] | None = None,
    graph: Mapping[str, object] | None = None,
    prologue: str = "",
) -> DsoModule:
    """Many functions, by their symbols, in one library; a ``Primitive`` function is one group of fused stages.

    *prologue* is C that stands in front of every source.

    With *graph*, the executor's JSON of a host program, the library has that as one function too, where it can be one.
    The module's ``constant_arrays`` are its constants by the names in its signatures. Raises CompileError for a
    function for which no code can be generated, CompilerNotFoundError.
    """
    compiler, flags, allowed = find_compiler(), _flags(options or {}), WinogradOptions.of(options or {})
    lowered: Sequence[Program] = [lower_to_c(function, symbol) for symbol, function in functions.items()]
    check_process(compiler.sanitizers, compiler.command, compiler.is_gcc)
    whole = Graph(graph) if graph is not None else None
    if whole is not None and no_whole_program(whole) is not None:
        whole = None
    if whole is not None and _may_have_large_items(whole, lowered):
        from byoc.codegen.c.item_loop import item_programs

        lowered = item_programs(lowered, whole)
    tune = (options or {}).get("tune", NO_TUNING)
    if tune == NO_TUNING:
        with paused_collector():
            programs = [prepare(p, compiler.machine, None, allowed) for p in lowered]
    else:
        from byoc.codegen.tune.run_threads import run_threads

        programs = _tuned(lowered, tune, workbench(compiler, flags, allowed, run_threads(whole, lowered)))
    with paused_collector():
        return build_library(programs, compiler, flags, whole, prologue)


def _may_have_large_items(graph: Graph, programs: Sequence[Program]) -> bool:
    """Whether an input of *graph* may hold several items, and what *programs* make is so large that it matters how."""
    shapes = [graph.specs[node.outputs[0]].shape for node in graph.inputs]
    made = (estimated_size(t.shape[1:]) * dtype_bytes(t.dtype) for p in programs for t in p.outputs)
    return any(shape and shape[0] != 1 for shape in shapes) and max(made, default=0) >= LARGE_VALUE


def _tuned(lowered: Sequence[Program], tune: object, bench: HostBench) -> list[Program]:
    """The programs *lowered* prepared with choices that *tune*, a level or a Tuner, asks for.

    Raises UserError for an unknown level.
    """
    from byoc.codegen.tune.tuner import tuner_of

    tuner = tuner_of(tune)
    with contextlib.nullcontext() if tuner.tunes else paused_collector():  # trials make garbage for minutes
        return tuner.prepared(lowered, bench)


def build_library(
    programs: Sequence[Program],
    compiler: CCompiler,
    flags: Sequence[str] = (),
    whole: Graph | None = None,
    prologue: str = "",
) -> DsoModule:
    """The library of prepared programs, with the *whole* graph as one function where it is given.

    *prologue* is C that stands in front of every source.
    """
    source = emit_library(programs, compiler.machine, whole, WHOLE_PROGRAM, "address" in compiler.sanitizers)
    signatures = [p.signature for p in programs]
    program = None if whole is None or source.whole is None else _with_types(source.whole, whole)
    units = translation_units(source, compiler, contract_of(signatures, program, compiler.sanitizers))
    if prologue:
        units = [dataclasses.replace(unit, source=f"{prologue}\n{unit.source}") for unit in units]
    library = compiler.build_units(units, flags)
    text = f"{prologue}\n{source.text()}" if prologue else source.text()
    return DsoModule(
        library,
        signatures,
        text,
        constant_arrays(programs),
        compiler.processor(flags),
        program,
        compiler.sanitizers,
    )


def _with_types(program: WholeProgram, graph: Graph) -> WholeProgram:
    """*program* with what *graph* takes and gives."""
    inputs = tuple(graph.specs[node.outputs[0]] for node in graph.inputs)
    return dataclasses.replace(program, inputs=inputs, outputs=tuple(graph.specs[head] for head in graph.heads))


def workbench(
    compiler: CCompiler, flags: Sequence[str], allowed: WinogradOptions = DEFAULT, threads: int = 1
) -> HostBench:
    """What a tuner prepares and builds programs with, which will run with so many *threads*."""

    from byoc.codegen.tune.trials import HostBench

    def team() -> bytes:
        from byoc.codegen.c.whole.kernel_team import kernel_team_source

        return compiler.build(kernel_team_source())

    trying = dataclasses.replace(compiler, limit=TRIAL_SECONDS)
    return HostBench(
        lambda program, choices: prepare(program, compiler.machine, choices, allowed),
        lambda programs: build_library(programs, trying, flags),
        lambda count: context_of(compiler, flags, count),
        cache_sizes(),
        threads,
        team,
    )


def translation_units(source: LibrarySource, compiler: CCompiler, contract: str) -> list[TranslationUnit]:
    """What the compiler compiles for *source*, each with the flags that it needs; the library carries *contract*."""
    units = [
        TranslationUnit(
            unit.source(),
            (
                *HIDDEN,
                *overflow_flags(unit.wraps, compiler.is_gcc),
                *gather_flags(unit.gathers, compiler.is_gcc),
                *masked_load_flags(unit.masks, compiler.is_gcc),
                *rounding_flags(unit.contracts, unit.separates, compiler.is_gcc),
            ),
        )
        for unit in source.units
    ]
    carried = f'\nconst char {CONTRACT}[] = "{contract_text(contract)}";\n'
    return [*units, TranslationUnit(source.entries_source() + carried, ENTRY_FLAGS)]


def _flags(options: Mapping[str, object]) -> tuple[str, ...]:
    flags = options.get("flags", ())
    given = tuple(flags) if isinstance(flags, Iterable) and not isinstance(flags, str) else None
    if given is None or not all(isinstance(f, str) for f in given):
        raise CompileError(f"option 'flags' of backend c is a list of strings, got {flags!r}")
    return given
