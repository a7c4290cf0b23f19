"""Modules for functions with control flow: bytecode for what the virtual machine decides, a library for each part."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from byoc.contract.signature import signature_of
from byoc.driver.bytecode.control import EXTERN, MAIN, external, part_of
from byoc.driver.bytecode.lower import lower_function
from byoc.driver.bytecode.outline import FORMS, PARTED
from byoc.driver.bytecode.passes import FunctionKind, kind_of
from byoc.driver.bytecode.program import ProgramBuilder
from byoc.errors import CompileError
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.span import span_names
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order
from byoc.runtime.control import ControlModule
from byoc.runtime.library import Library
from byoc.runtime.vm.executable import Executable

CompilePart = Callable[[IRModule], Library]


def control_modules(mod: IRModule, compile_part: CompilePart) -> list[ControlModule]:
    """A module for each external function that ``main`` calls. Raises CompileError for what the machine cannot run."""
    externs = external(mod)
    return [_control_module(var, mod, externs, compile_part) for var in _called(as_function(mod[MAIN]), externs)]


def _called(function: Function, among: Mapping[GlobalVar, Function]) -> Iterator[GlobalVar]:
    found = (n.op for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, GlobalVar))
    return iter(dict.fromkeys(var for var in found if var in among))


def straight_parts(mod: IRModule) -> dict[GlobalVar, Function]:
    """The functions of straight code that the external functions called by ``main`` call: a library each."""
    externs, found = external(mod), dict[GlobalVar, Function]()
    for var in _called(as_function(mod[MAIN]), externs):
        found.update(_reached(var, externs)[1])
    return found


def _reached(
    var: GlobalVar, externs: Mapping[GlobalVar, Function]
) -> tuple[dict[GlobalVar, Function], dict[GlobalVar, Function]]:
    """What calling *var* calls: the functions that decide, *var* first, and those of straight code."""
    deciding: dict[GlobalVar, Function] = {}
    straight: dict[GlobalVar, Function] = {}
    pending = [var]
    while pending:
        now = pending.pop()
        if now in deciding or now in straight:
            continue
        function = externs[now]
        is_straight = PARTED not in function.attrs and kind_of(function.without_attr(EXTERN)) is FunctionKind.DATAFLOW
        if now is not var and is_straight:
            straight[now] = function
        else:
            deciding[now] = function
            pending.extend(_called(function, externs))
    return deciding, straight


def _control_module(
    var: GlobalVar, mod: IRModule, externs: Mapping[GlobalVar, Function], compile_part: CompilePart
) -> ControlModule:
    deciding, straight = _reached(var, externs)
    program = ProgramBuilder(deciding, straight)
    for own, function in deciding.items():
        lower_function(program, own, function)
    if program.host.compiled or program.host.interpreted:
        symbol = next(iter((*program.host.compiled, *program.host.interpreted)))
        where = ", ".join(span_names(externs[var].span)) or var.name_hint
        raise CompileError(
            f"{where}: @{var.name_hint} computes {symbol} beside its control flow: put operators into functions that "
            "it calls, or compile the module with relay.vm.compile"
        )
    parts = {own.name_hint: compile_part(part_of(mod, own, function)) for own, function in straight.items()}
    signature = signature_of(var.name_hint, externs[var], {})
    made = Executable(program.finish(), program.symbols, program.constants)
    return ControlModule(signature, made, parts, (_form(externs[var], FORMS[0]), _form(externs[var], FORMS[1])))


def _form(function: Function, key: str) -> tuple[str, ...]:
    found = function.attrs.get(key)
    return tuple(map(str, found)) if isinstance(found, (list, tuple)) else ()


def summaries(modules: list[ControlModule]) -> list[dict[str, object]]:
    """What a report lists of functions with control flow: each with its parts, and why it runs on the machine."""
    return [
        {
            "symbol": module.signature.symbol,
            "runs on": "the virtual machine, since what runs is decided when the model runs",
            "parts": {name: part.report for name, part in module.parts.items()},
        }
        for module in modules
    ]
