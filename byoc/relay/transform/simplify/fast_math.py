"""FastMath: exp, tanh, erf and softmax by their polynomial approximations.

Runs from level 4 only, or where it is required, because the numbers change. Source: ``relay.transform.FastMath``.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.op import OPS, get_op
from byoc.ir.passes.law import Law, Numbers
from byoc.relay.expr import Call
from byoc.relay.transform.base.call_rules import CallRule, call_rule_pass
from byoc.relay.transform.base.infer_type import FunctionPass


def _to(name: str) -> CallRule:
    def fast(before: Call, after: Call) -> RelayExpr:
        return Call(get_op(name), after.args, after.attrs, after.type_args, before.span)

    return fast


LAW = Law("exp, tanh, erf and softmax by polynomials that come near them", Numbers.NEAR)


def FastMath() -> FunctionPass:
    """The pass that replaces the operators that have a fast form."""
    forms = {name: OPS[name].traits.fast_form for name in OPS}
    return call_rule_pass("FastMath", 4, {name: _to(fast) for name, fast in forms.items() if fast is not None}, LAW)
