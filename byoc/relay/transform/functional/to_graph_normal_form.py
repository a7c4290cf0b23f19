"""ToGraphNormalForm: ``let`` disappears, each variable is replaced by its value. Source: the pass of Relay.

Requires values without effects (references are not ordered any more afterwards). A value that mentions its own
variable, a recursive function, keeps its ``let``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.expr import Function, Let
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import children, rewrite


def ToGraphNormalForm() -> FunctionPass:
    """The pass that turns bindings into sharing."""

    def transform(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(to_graph_normal_form(func))

    return FunctionPass(
        transform,
        PassInfo(
            "ToGraphNormalForm",
            opt_level=1,
            gives=("graph_normal_form",),
            ends=REWRITES,
            law=Law("a name that is bound stands for its value"),
        ),
    )


def to_graph_normal_form(root: RelayExpr) -> RelayExpr:
    """*root* with every let-bound variable replaced by its value; the order of evaluation is that of use."""
    bound: dict[RelayExpr, RelayExpr] = {}
    recursive: set[RelayExpr] = set()
    done: dict[RelayExpr, RelayExpr] = {}

    def value_first(expr: RelayExpr) -> Sequence[RelayExpr]:
        if not isinstance(expr, Let):
            return children(expr)
        bound[expr.variable] = expr.value
        return (expr.value, expr.body)

    def unbound(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if before in bound:
            if bound[before] not in done:  # inside its own value
                recursive.add(before)
            return before if before in recursive else done[bound[before]]
        if isinstance(before, Let) and before.variable not in recursive:
            return done[before.body]
        return after

    return rewrite(root, unbound, value_first, done)
