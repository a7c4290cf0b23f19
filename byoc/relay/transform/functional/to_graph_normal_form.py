"""ToGraphNormalForm: ``let`` disappears, each variable is replaced by its value. Source: the pass of Relay.

Requires values without effects (references are not ordered any more afterwards). A value that mentions its own
variable, a recursive function, keeps its ``let``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.pass_forms import REWRITES
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.expr import Function, Let, Var
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import children, post_order, rebuild


def ToGraphNormalForm() -> FunctionPass:
    """The pass that turns bindings into sharing."""

    def transform(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(to_graph_normal_form(func))

    return FunctionPass(
        transform, PassInfo("ToGraphNormalForm", opt_level=1, gives=("graph_normal_form",), ends=REWRITES)
    )


def to_graph_normal_form(root: RelayExpr) -> RelayExpr:
    """*root* with every let-bound variable replaced by its value; the order of evaluation is that of use."""
    bound: dict[RelayExpr, RelayExpr] = {}
    recursive: set[RelayExpr] = set()
    memo: dict[RelayExpr, RelayExpr] = {}

    def in_order(expr: RelayExpr) -> Sequence[RelayExpr]:
        if not isinstance(expr, Let):
            return children(expr)
        bound[expr.variable] = expr.value
        return (expr.value, expr.body)

    for node in post_order(root, in_order):
        if isinstance(node, Var) and node in bound:
            if bound[node] not in memo:  # inside its own value
                recursive.add(node)
            memo[node] = node if node in recursive else memo[bound[node]]
        elif isinstance(node, Let) and node.variable not in recursive:
            memo[node] = memo[node.body]
        else:
            memo[node] = rebuild(node, [memo.get(child, child) for child in children(node)])
    return memo[root]
