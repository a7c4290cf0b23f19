"""All laws over a module, at one look at each function that is new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from byoc.ir.expr import BaseFunc, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import FORMS
from byoc.ir.types import Type
from byoc.relay.expr import Function
from byoc.relay.traverse import post_order
from byoc.relay.verify.forms import forms_of
from byoc.relay.verify.problem import ProblemError
from byoc.relay.verify.regions import check_annotated, check_region_functions
from byoc.relay.verify.scopes import check_scopes
from byoc.relay.verify.types import check_types

_OPAQUE = ("Compiler", "Extern", "SkipOptimization")  # whose forms are no concern of passes


@dataclass
class VerifiedFunction:
    """A function that keeps the laws: the types of its nodes, its forms, and the functions that it was checked
    beside, since what it calls may be another in the next module."""

    types: Mapping[RelayExpr, Type | None]
    forms: frozenset[str]
    calls: Mapping[GlobalVar, BaseFunc]


@dataclass
class ModuleVerdict:
    """The first problem of a module, or None, and the forms of all its functions that passes may look into."""

    problem: str | None = None
    forms: frozenset[str] = frozenset(FORMS)
    checked: dict[Function, VerifiedFunction] = field(default_factory=dict)


def verify(mod: IRModule, last: ModuleVerdict | None = None) -> ModuleVerdict:
    """What the laws say of *mod*; *last* is the verdict on a module that it may share functions and nodes with."""
    known = last.checked if last is not None else {}
    verdict = ModuleVerdict()
    nodes: Mapping[RelayExpr, Type | None] | None = None
    try:
        for var, func in mod.functions.items():
            if not isinstance(func, Function):
                continue
            found = known.get(func)
            if found is None or not _still_holds(found, mod):
                nodes = _together([checked.types for checked in known.values()]) if nodes is None else nodes
                found = _check(func, var.name_hint, mod, nodes)
            verdict.checked[func] = found
            if not any(func.attrs.get(key) for key in _OPAQUE):
                verdict.forms &= found.forms
            elif "typed" not in found.forms:
                verdict.forms -= {"typed"}
        check_region_functions(mod)
    except ProblemError as problem:
        verdict.problem = str(problem)
    return verdict


def scope_problem(mod: IRModule) -> str | None:
    """The first variable of *mod* that is bound twice or used where nothing binds it, as a sentence; None without."""
    try:
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                check_scopes(func, list(post_order(func)), var.name_hint)
    except ProblemError as problem:
        return str(problem)
    return None


def _together(types: Sequence[Mapping[RelayExpr, Type | None]]) -> Mapping[RelayExpr, Type | None]:
    return types[0] if len(types) == 1 else {node: ty for found in types for node, ty in found.items()}


def _still_holds(checked: VerifiedFunction, mod: IRModule) -> bool:
    """Types may have come since, and what a global name stands for may have changed."""
    return "typed" in checked.forms and all(var in mod and mod[var] is func for var, func in checked.calls.items())


def _check(func: Function, name: str, mod: IRModule, known: Mapping[RelayExpr, Type | None]) -> VerifiedFunction:
    order = list(post_order(func))
    check_scopes(func, order, name)
    types = check_types(order, mod, name, known)
    forms = forms_of(func, order)
    if "no_region_marks" not in forms:
        check_annotated(func, name)
    calls = {node: mod[node] for node in order if type(node) is GlobalVar and node in mod}
    return VerifiedFunction(types, forms, calls)
