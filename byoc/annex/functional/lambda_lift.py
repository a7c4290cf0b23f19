"""LambdaLift: local functions become global ones.

A function that uses variables from around it becomes a global function from these to the function proper, marked as
``Closure``; it is called with them where the local function stood. Equal functions are lifted once: the name identifies
the structure. Units (``Primitive``) and the functions of other compilers stay. Source: ``relay.transform.LambdaLift``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.annex.functional.de_duplicate import dedup
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.ir.types import FuncType, GlobalTypeVar, Type, TypeVar, type_children
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.analysis.variables import free_vars
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.narrowing import as_function
from byoc.relay.structure.structural import structural_equal, structural_hash
from byoc.relay.traverse import children, post_order, rewrite, substitute


def LambdaLift() -> ModulePass:
    """The pass that leaves no local function that is not a unit."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        result = infer_module(mod).shallow_copy()
        for var, func in list(result.functions.items()):
            if isinstance(func, Function) and not _is_unit(func):
                result[var] = Lifter(result).lifted(func)
        return result

    return ModulePass(transform, PassInfo("LambdaLift", 1, ends=("typed", "graph_normal_form", *REWRITES)))


def _is_unit(func: Function) -> bool:
    return bool(func.attrs.get("Primitive")) or func.attrs.get("Compiler") is not None


class Lifter:
    """Lifts the local functions of one global function into *mod*, inner ones first."""

    def __init__(self, mod: IRModule):
        self._mod = mod
        self._bound_to: dict[RelayExpr, Var] = {}

    def lifted(self, root: Function) -> Function:
        """*root* over global functions."""

        def inner(node: RelayExpr) -> Sequence[RelayExpr]:
            if isinstance(node, Let) and isinstance(node.value, Function):
                self._bound_to[node.value] = node.variable
            return () if isinstance(node, Function) and _is_unit(node) else children(node)

        def lift(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            if isinstance(after, Function) and before is not root and not _is_unit(after):
                return self._lift(after, self._bound_to.get(before), before._checked_type)
            return after

        return as_function(rewrite(root, lift, inner))

    def _lift(self, func: Function, bound_to: Var | None, ty: Type | None) -> RelayExpr:
        """What stands for *func*, whose inner functions are lifted: a name, or its call with captured variables."""
        free = free_vars(func)
        captured = [v for v in free if v is not bound_to]
        type_vars = _free_type_vars(func)
        symbol = GlobalVar(f"lifted_name{structural_hash(func, map_free_vars=True)}")
        if bound_to in free:
            again: RelayExpr = Call(symbol, captured) if captured or type_vars else symbol
            func = as_function(substitute(func, {bound_to: again}))
        func = as_function(dedup(func))
        if captured or type_vars:
            func = self._closure(func, captured, type_vars, ty)
        symbol = self._added(symbol, func)
        return Call(symbol, captured, span=func.span) if captured or type_vars else symbol

    def _closure(self, func: Function, captured: list[Var], type_vars: list[TypeVar], ty: Type | None) -> Function:
        params = [Var(v.name_hint, v.type_annotation, v.span) for v in captured]
        body = substitute(func, dict(zip(captured, params, strict=True)))
        return Function(params, body, ty, type_vars, {"Closure": 1}, func.span)

    def _added(self, symbol: GlobalVar, func: Function) -> GlobalVar:
        """The name under which the module has *func* from now on; that of an equal function where there is one."""
        name = symbol.name_hint
        while name in self._mod:
            known = self._mod.get_global_var(name)
            if structural_equal(self._mod[known], substitute(func, {symbol: known})):
                return known
            name += "_a"
        if name != symbol.name_hint:
            renamed = GlobalVar(name)
            symbol, func = renamed, as_function(substitute(func, {symbol: renamed}))
        self._mod[symbol] = func
        return symbol


def _free_type_vars(func: Function) -> list[TypeVar]:
    """The type parameters of functions around *func* that its annotations mention, in order."""
    found: dict[TypeVar, None] = {}
    own: set[TypeVar] = set()
    for node in post_order(func):
        stack: list[Type | None] = []
        if isinstance(node, Var):
            stack.append(node.type_annotation)
        elif isinstance(node, Function):
            own.update(node.type_params)
            stack.append(node.declared_ret_type)
        elif isinstance(node, Call):
            stack.extend(node._type_args)
        while stack:
            ty = stack.pop()
            if isinstance(ty, FuncType):
                own.update(ty.type_params)
            if isinstance(ty, TypeVar) and not isinstance(ty, GlobalTypeVar):
                found[ty] = None
            elif ty is not None:
                stack.extend(reversed(type_children(ty)))
    return [var for var in found if var not in own]
