"""CanonicalizeOps: special forms become general ones, so that later passes know fewer operators.

``nn.bias_add(x, b)`` becomes ``x + expand_dims(b)``. Source: ``relay.transform.CanonicalizeOps``.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import tensor_types
from byoc.relay.analysis.operator_calls import op_name
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_call, as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.simplify.inference import Arithmetic
from byoc.relay.traverse import rewrite


def bias_to_add(before: Call, after: Call) -> RelayExpr:
    """``nn.bias_add`` as an addition; *before* is the same call with types."""
    data = tensor_types(before.args[0].checked_type)[0]
    make = Arithmetic(before.span, data.dtype)
    axis = before.attrs.get_int("axis")
    return make("add", after.args[0], make.along(after.args[1], axis, data.ndim))


CANONICAL: dict[str, Callable[[Call, Call], RelayExpr]] = {"nn.bias_add": bias_to_add}


def canonicalize(root: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """*root* with the operators of :data:`CANONICAL` in their general form."""
    infer_expr(root, mod)

    def general(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        rule = CANONICAL.get(op_name(before) or "")
        return after if rule is None else rule(as_call(before), as_call(after))

    return rewrite(root, general, fusion_children)


def CanonicalizeOps() -> FunctionPass:
    """The pass that replaces special operators by general ones."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(canonicalize(func, mod))

    return FunctionPass(
        run,
        PassInfo(
            "CanonicalizeOps",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("a bias is added as a tensor of its shape along the axis"),
        ),
    )
