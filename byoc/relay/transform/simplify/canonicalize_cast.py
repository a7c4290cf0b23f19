"""CanonicalizeCast: a widening cast that several elementwise operators read is made once for each of them.

So it is fused into each of them, and the wide tensor is never stored. Source: ``relay.transform.CanonicalizeCast``.
"""

from __future__ import annotations

from typing import TypeGuard

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, OpPattern
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType, dtype_bytes
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import rewrite


def _widens(expr: RelayExpr) -> bool:
    """True for a cast to more bits."""
    if op_name(expr) != "cast":
        return False
    source, target = as_call(expr).args[0].checked_type, expr.checked_type
    if not isinstance(source, TensorType) or not isinstance(target, TensorType):
        return False
    if "string" in (source.dtype, target.dtype):
        return False
    sizes = [0 if ty.dtype == "bool" else dtype_bytes(ty.dtype) for ty in (source, target)]
    return sizes[0] < sizes[1]


def _is_light(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a call of an operator up to broadcasts."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return False
    pattern = expr.op.get_attr("TOpPattern")
    return pattern is not None and int(pattern) <= OpPattern.BROADCAST


def separate_casts(root: RelayExpr) -> RelayExpr:
    """The typed *root* in which every reading of a widening cast by a light operator, but the first, has its own."""
    read: set[RelayExpr] = set()

    def own(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not _widens(before):
            return after
        if before not in read:
            read.add(before)
            return after
        cast = as_call(after)
        return Call(cast.op, cast.args, cast.attrs, cast.type_args, cast.span)

    def separate(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not _is_light(before):
            return after
        call = as_call(after)
        args = [own(a, b) for a, b in zip(before.args, call.args, strict=True)]
        if all(a is b for a, b in zip(args, call.args, strict=True)):
            return call
        return Call(call.op, args, call.attrs, call.type_args, call.span)

    return rewrite(root, separate, fusion_children)


def CanonicalizeCast() -> FunctionPass:
    """The pass that gives each elementwise reader of a widening cast its own."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(separate_casts(infer_function(func, mod)))

    return FunctionPass(
        run,
        PassInfo(
            "CanonicalizeCast",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("a cast that several read may be made once for each"),
        ),
    )
