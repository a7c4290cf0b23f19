"""SpecializeShapes: named sizes that become known, such as a free batch dimension, are written into all types.

Requires: named dimensions in the parameters' types. Ensures: none of the given names occurs in the function. Ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_forms import REWRITES
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import Any, FuncType, RefType, TensorType, TupleType, Type
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import children, post_order, rebuild


def specialize_type(ty: Type, sizes: Mapping[str, int]) -> Type:
    """*ty* with each dimension named in *sizes* as its number."""
    if isinstance(ty, TensorType):
        return TensorType([sizes.get(d.name, d) if isinstance(d, Any) else d for d in ty.shape], ty.dtype)
    if isinstance(ty, TupleType):
        return TupleType([specialize_type(f, sizes) for f in ty.fields])
    if isinstance(ty, RefType):
        return RefType(specialize_type(ty.value, sizes))
    if isinstance(ty, FuncType):
        args = [specialize_type(a, sizes) for a in ty.arg_types]
        return FuncType(args, specialize_type(ty.ret_type, sizes), ty.type_params)
    return ty


def specialize(root: RelayExpr, sizes: Mapping[str, int]) -> RelayExpr:
    """*root* with the named sizes as numbers; every node is made anew, without a type."""
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(root):
        if isinstance(node, Var):
            known = node.type_annotation
            memo[node] = Var(node.name_hint, None if known is None else specialize_type(known, sizes), node.span)
            continue
        inner = [memo[c] for c in children(node)]
        new = rebuild(node, inner) if inner else node
        if isinstance(new, Call) and new is node:
            new = Call(node.op, node.args, node.attrs, node.type_args, node.span)
        if isinstance(new, Function) and new.declared_ret_type is not None:
            declared = specialize_type(new.declared_ret_type, sizes)
            new = Function(new.params, new.body, declared, new.type_params, new.attrs, new.span)
        memo[node] = new
    return memo[root]


def SpecializeShapes(sizes: Mapping[str, int]) -> FunctionPass:
    """The pass that gives named dimensions their sizes. Raises UserError for a size that is not a positive int."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"the size of dimension {name!r} is a positive int, got {size!r}")
    known = dict(sizes)

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(specialize(func, known))

    return FunctionPass(run, PassInfo("SpecializeShapes", 0, ("InferType",), ends=REWRITES))
