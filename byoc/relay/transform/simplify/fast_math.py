"""FastMath: exp, tanh, erf and softmax by their polynomial approximations.

Runs from level 4 only, or where it is required, because the numbers change. Source: ``relay.transform.FastMath``.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, get_op
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.relay.expr import Call
from byoc.relay.transform.base.call_rules import ByOperator, CallRule, call_rule_pass
from byoc.relay.transform.base.infer_type import FunctionPass


def _to(name: str) -> CallRule:
    def fast(before: Call, after: Call) -> RelayExpr:
        return Call(get_op(name), after.args, after.attrs, after.type_args, before.span)

    return fast


LAW = Law("exp, tanh, erf and softmax by polynomials that come near them", Numbers.NEAR)


def _fast(op: Op) -> CallRule | None:
    return None if op.traits.fast_form is None else _to(op.traits.fast_form)


def FastMath() -> FunctionPass:
    """The pass that replaces the operators that have a fast form."""
    return call_rule_pass("FastMath", 4, ByOperator(_fast), LAW)
