"""SpecializeShapes: named sizes that become known, such as a free batch dimension, are written into all types.

Requires: named dimensions in the parameters' types. Ensures: none of the given names occurs in the function. Ours.
"""

from __future__ import annotations

from collections.abc import Mapping

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import Any, FuncType, RefType, TensorType, TupleType, Type
from byoc.relay.expr import Call, Function, Var
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rewrite


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

    def specialized(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Var):
            known = before.type_annotation
            return Var(before.name_hint, None if known is None else specialize_type(known, sizes), before.span)
        if isinstance(after, Call) and after is before:
            return Call(after.op, after.args, after.attrs, after.type_args, after.span)
        if isinstance(after, Function) and after.declared_ret_type is not None:
            declared = specialize_type(after.declared_ret_type, sizes)
            return Function(after.params, after.body, declared, after.type_params, after.attrs, after.span)
        return after

    return rewrite(root, specialized)


def SpecializeShapes(sizes: Mapping[str, int]) -> FunctionPass:
    """The pass that gives named dimensions their sizes. Raises UserError for a size that is not a positive int."""
    for name, size in sizes.items():
        if not isinstance(size, int) or size < 1:
            raise UserError(f"the size of dimension {name!r} is a positive int, got {size!r}")
    known = dict(sizes)

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(specialize(func, known))

    return FunctionPass(
        run,
        PassInfo(
            "SpecializeShapes",
            0,
            ("InferType",),
            ends=REWRITES,
            law=Law("a free size that has one value is that number"),
        ),
    )
