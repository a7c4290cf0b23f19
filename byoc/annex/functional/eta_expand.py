"""EtaExpand: names of functions and constructors that are used as values become function literals that call them.

What is called directly stays. Afterwards a graph runtime meets no bare name. Source: ``relay.transform.EtaExpand``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.ir.types import Type, TypeCall, TypeVar, substitute_types
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.traverse import children, rebuild, rewrite


def EtaExpand(expand_constructor: bool = False, expand_global_var: bool = False) -> ModulePass:
    """The pass that makes literals of constructors, of global functions, or of both, where they are values.

    Ensures: all that is made has its type.
    """

    def transform(mod: IRModule, ctx: object) -> IRModule:
        result = mod.shallow_copy()
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                result[var] = _expanded(func, mod, expand_constructor, expand_global_var)
        return infer_module(result)

    return ModulePass(transform, PassInfo("EtaExpand", 1, ends=("typed", "graph_normal_form", *REWRITES)))


def _called_by_name(node: RelayExpr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, (GlobalVar, Constructor))


def _values(node: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *node* that are values: a name that it calls is none."""
    return as_call(node).args if _called_by_name(node) else children(node)


def _expanded(root: Function, mod: IRModule, constructors: bool, globals_: bool) -> Function:
    def expanded(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Constructor) and constructors:
            return _constructor_literal(before, mod)
        if isinstance(before, GlobalVar) and globals_:
            return _global_literal(before, mod)
        if _called_by_name(before):  # by name still, though it may be a value elsewhere
            return rebuild(before, [as_call(before).op, *as_call(after).args])
        return after

    return as_function(rewrite(root, expanded, _values))


def _constructor_literal(constructor: Constructor, mod: IRModule) -> Function:
    data = mod.type_definitions[constructor.belong_to]
    made = [TypeVar(var.name_hint, var.kind) for var in data.type_vars]
    types = dict[Type, Type](zip(data.type_vars, made, strict=True))
    params = [Var("eta_expand_param", substitute_types(t, types)) for t in constructor.inputs]
    return Function(params, Call(constructor, params), TypeCall(constructor.belong_to, made), made)


def _global_literal(var: GlobalVar, mod: IRModule) -> RelayExpr:
    func = mod[var]
    if not isinstance(func, Function):
        return var
    new = [TypeVar(v.name_hint, v.kind) for v in func.type_params]
    types = dict[Type, Type](zip(func.type_params, new, strict=True))
    params = [
        Var("eta_expand_param", substitute_types(p.type_annotation, types))
        if p.type_annotation is not None
        else Var("eta_expand_param")
        for p in func.params
    ]
    result = substitute_types(func.ret_type, types) if func.ret_type is not None else None
    return Function(params, Call(var, params), result, new)
