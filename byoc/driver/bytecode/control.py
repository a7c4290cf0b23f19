"""Functions with control flow: what the virtual machine decides, over parts that are compiled as a model is.

The importer makes a global function of each branch, each loop's body, and each decision (``onnx/subgraphs.py``). A
decision becomes bytecode; what it calls and holds no control flow is a *part*: a library of its own, simplified,
planned, cut and compiled like ``main``, with whole programs and regions of its own. Ensures: while ``main`` or a part
is compiled, all other functions are external (``Extern``), which passes and planners leave alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from byoc.contract.signature import signature_of
from byoc.driver.bytecode.lower import lower_function
from byoc.driver.bytecode.outline import FORMS, PARTED, outlined
from byoc.driver.bytecode.passes import FunctionKind, kind_of
from byoc.driver.bytecode.program import ProgramBuilder
from byoc.driver.host import CONTROL
from byoc.errors import CompileError
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import TypeCall, contains_type
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order
from byoc.runtime.control import ControlModule
from byoc.runtime.library import Library
from byoc.runtime.vm.executable import Executable

MAIN, EXTERN = "main", "Extern"
CompilePart = Callable[[IRModule], Library]


def with_externs(mod: IRModule) -> IRModule:
    """*mod* whose functions beside ``main`` and the regions are external, each with a symbol."""
    result = mod
    for var, function in mod.functions.items():
        if var.name_hint == MAIN or not isinstance(function, Function) or "Compiler" in function.attrs:
            continue
        if EXTERN not in function.attrs:
            result = mod.shallow_copy() if result is mod else result
            result[var] = function.with_attr({EXTERN: 1, "global_symbol": var.name_hint})
    return result


def parted(mod: IRModule) -> IRModule:
    """*mod* for a planner: straight code in functions of its own, what holds sequences external."""
    mod = outlined(mod)
    holding = [v for v, f in mod.functions.items() if isinstance(f, Function) and _holds_sequences(f)]
    if not holding:
        return mod
    result = mod.shallow_copy()
    for var in holding:
        result[var] = as_function(mod[var]).with_attr(EXTERN, 1)
    return result


def without_externs(mod: IRModule) -> IRModule:
    """*mod* whose functions are none of them external."""
    result = mod.shallow_copy()
    for var, function in external(mod).items():
        result[var] = function.without_attr(EXTERN)
    return result


def _holds_sequences(function: Function) -> bool:
    nodes = post_order(function)
    return any(
        n.checked_type_ is not None and contains_type(n.checked_type_, TypeCall) for n in nodes if type(n) is not Op
    )


def external(mod: IRModule) -> dict[GlobalVar, Function]:
    """The external functions of *mod*."""
    found = ((var, f) for var, f in mod.functions.items() if isinstance(f, Function))
    return {var: f for var, f in found if f.attrs.get(EXTERN)}


def control_modules(mod: IRModule, compile_part: CompilePart) -> list[ControlModule]:
    """A module for each external function that ``main`` calls. Raises CompileError for what the machine cannot run."""
    externs = external(mod)
    return [_control_module(var, mod, externs, compile_part) for var in _called(as_function(mod[MAIN]), externs)]


def _called(function: Function, among: Mapping[GlobalVar, Function]) -> Iterator[GlobalVar]:
    found = (n.op for n in post_order(function.body) if isinstance(n, Call) and isinstance(n.op, GlobalVar))
    return iter(dict.fromkeys(var for var in found if var in among))


def _control_module(
    var: GlobalVar, mod: IRModule, externs: Mapping[GlobalVar, Function], compile_part: CompilePart
) -> ControlModule:
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


def part_of(mod: IRModule, var: GlobalVar, function: Function) -> IRModule:
    """The module whose ``main`` is *function*, called *var* in *mod*."""
    rest = {v: f for v, f in mod.functions.items() if v.name_hint != MAIN and v is not var}
    main = Function(function.params, function.body, None, (), None, function.span)
    made = IRModule({MAIN: main}, dict(mod.type_definitions), dict(mod.attrs))
    for other, kept in rest.items():
        made[other] = kept
    return made


def told_of(modules: list[ControlModule]) -> list[dict[str, object]]:
    """What a report tells of functions with control flow: each with its parts, and why it runs on the machine."""
    return [
        {
            "symbol": module.signature.symbol,
            "runs on": "the virtual machine, since what runs is decided when the model runs",
            "parts": {name: part.report for name, part in module.parts.items()},
        }
        for module in modules
    ]


__all__ = [
    "CONTROL",
    "control_modules",
    "external",
    "part_of",
    "parted",
    "told_of",
    "with_externs",
    "without_externs",
]
