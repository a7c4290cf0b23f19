"""Functions with control flow: what the virtual machine decides, over parts that are compiled as a model is.

The importer makes a global function of each branch, each loop's body, and each decision (``onnx/subgraphs.py``). A
decision becomes bytecode; what it calls and holds no control flow is a *part*: a library of its own, simplified,
planned, cut and compiled like ``main``, with whole programs and regions of its own. Ensures: while ``main`` or a part
is compiled, all other functions are external (``Extern``), which passes and planners leave alone.
"""

from __future__ import annotations

from byoc.driver.host import CONTROL
from byoc.ir.expr import GlobalVar
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.traits import OpKind
from byoc.ir.types import TypeCall, contains_type
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.operator_calls import makes_sizes as call_makes_sizes
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order

MAIN, EXTERN = "main", "Extern"


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


def with_parts(mod: IRModule) -> IRModule:
    """The typed *mod*, whose straight code stands in functions of its own where what is around it is not straight."""
    mod = _with_known_sizes(infer_module(mod))
    functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    if any(map(_has_leading_form, functions)):
        from byoc.driver.bytecode.leading_forms import with_leading_forms

        mod = with_leading_forms(mod)
        functions = [f for f in mod.functions.values() if isinstance(f, Function)]
    if not contains_type(as_function(mod[MAIN]).checked_type, TypeCall) and not any(map(_is_parted, functions)):
        return mod
    from byoc.driver.bytecode.outline import outlined

    return outlined(mod)


def _with_known_sizes(mod: IRModule) -> IRModule:
    """The typed *mod*; folded where some operator's result has sizes without names, which folding names mostly."""
    if not any(isinstance(f, Function) and makes_sizes(f) for f in mod.functions.values()):
        return mod
    from byoc.relay.transform.simplify.fold_constant import FoldHostConstant

    folded = infer_module(FoldHostConstant()(mod))
    still = any(isinstance(f, Function) and makes_sizes(f) for f in folded.functions.values())
    return folded if still else mod


def _has_leading_form(function: Function) -> bool:
    """Whether an operator of *function* has a leading form (``Traits.leading_form``)."""
    if "Compiler" in function.attrs:
        return False
    calls = (node.op for node in post_order(function.body) if isinstance(node, Call))
    return any(isinstance(op, Op) and op.traits.leading_form is not None for op in calls)


def makes_sizes(function: Function) -> bool:
    """Whether an operator of *function* gives sizes that come to light when it runs, of operands whose sizes have
    names or numbers.
    """
    if "Compiler" in function.attrs:
        return False
    return any(isinstance(node, Call) and call_makes_sizes(node) for node in post_order(function.body))


def _is_parted(function: Function) -> bool:
    """Whether *function* calls another one, finds or makes sizes or moves sequences, of which some are parted."""
    calls = [node.op for node in post_order(function.body) if isinstance(node, Call)]
    traits = [op.traits for op in calls if isinstance(op, Op)]
    return (
        any(isinstance(op, GlobalVar) for op in calls)
        or any(t.finds_sizes or t.kind is OpKind.SEQUENCE for t in traits)
        or makes_sizes(function)
    )


def parted(mod: IRModule) -> IRModule:
    """*mod* for a planner: straight code in functions of its own, what holds sequences external."""
    mod = with_parts(mod)
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


def part_of(mod: IRModule, var: GlobalVar, function: Function) -> IRModule:
    """The module whose ``main`` is *function*, called *var* in *mod*."""
    rest = {v: f for v, f in mod.functions.items() if v.name_hint != MAIN and v is not var}
    main = Function(function.params, function.body, None, (), None, function.span)
    made = IRModule({MAIN: main}, dict(mod.type_definitions), dict(mod.attrs))
    for other, kept in rest.items():
        made[other] = kept
    return made


__all__ = [
    "CONTROL",
    "external",
    "part_of",
    "parted",
    "with_externs",
    "without_externs",
]
