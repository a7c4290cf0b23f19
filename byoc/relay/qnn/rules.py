"""Passes that ask each operator's own rule what to put in the place of its calls. Source: ``relay.transform.Legalize``.

A rule is an operator's attribute of some key: ``rule(attrs, args, types)`` gives an expression, or None to leave the
call. *types* are those of the arguments and then of the result. What a rule makes carries the span of the call that it
replaces, and is not asked again.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import Type
from byoc.relay.analysis.operator_calls import located
from byoc.relay.analysis.type_infer import infer_expr, is_assignable
from byoc.relay.expr import Call
from byoc.relay.narrowing import operator_of
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.traverse import children, post_order, rewrite


def _with_span(expr: RelayExpr, inputs: Sequence[RelayExpr], call: Call) -> None:
    """Give the nodes between *expr* and *inputs* that have no span the span of *call*."""
    if call.span is None:
        return
    stop = set(inputs)
    for node in post_order(expr, lambda e: () if e in stop else children(e)):
        if node not in stop and node.span is None and not isinstance(node, Op):
            node.span = call.span


def _replacement(key: str, call: Call, args: Sequence[RelayExpr], types: Sequence[Type]) -> RelayExpr | None:
    rule = operator_of(call).get_attr(key)
    new = rule(call.attrs, list(args), list(types))
    if new is not None and not isinstance(new, RelayExpr):
        raise UserError(
            f"the {key} rule of {operator_of(call).name} must return an expression or None, "
            f"got {type(new).__name__}{located(call)}"
        )
    return new


def apply_rules(root: RelayExpr, key: str, mod: IRModule | None = None) -> RelayExpr:
    """*root* with each operator call replaced by what the operator's rule under *key* makes of it, bottom up.

    Raises TypeInferenceError where a rule makes something of another type, UserError where it makes no expression.
    """
    infer_expr(root, mod)

    def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not (isinstance(before, Call) and isinstance(before.op, Op) and before.op.has_attr(key)):
            return after
        assert isinstance(after, Call)
        types = [*(a.checked_type for a in before.args), before.checked_type]
        new = _replacement(key, before, after.args, types)
        if new is None:
            return after
        _with_span(new, after.args, before)
        if not is_assignable(infer_expr(new, mod), before.checked_type):
            raise TypeInferenceError(
                f"the {key} rule of {before.op.name} made {new.checked_type} of {before.checked_type}{located(before)}"
            )
        return new

    return rewrite(root, replaced, fusion_children)
