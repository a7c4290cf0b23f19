"""DivToMul: a division by a floating-point constant becomes a product with its reciprocal.

Integers and constants with a zero among them are left alone. The result differs from the quotient by at most the
rounding of the reciprocal. Source: ``relay.transform.DivToMul``.
"""

from __future__ import annotations

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.transform.base.call_rules import call_op, call_rule_pass
from byoc.relay.transform.base.infer_type import FunctionPass

_FLOATS = ("float16", "float32", "float64")


def divide_to_multiply(before: Call, after: Call) -> RelayExpr:
    """``x / c`` as ``x * (1 / c)`` where c is a constant of floats without a zero."""
    divisor = after.args[1]
    if not isinstance(divisor, Constant) or divisor.data.dtype not in _FLOATS:
        return after
    values = divisor.data.numpy()
    if not np.all(values):
        return after
    with np.errstate(over="ignore"):
        inverse = np.asarray(1.0 / values).astype(values.dtype)
    if not np.all(np.isfinite(inverse)):  # the reciprocal of a subnormal number has no finite value
        return after
    return call_op("multiply", [after.args[0], constant(inverse, span=divisor.span)], before.span)


LAW = Law("x / c = x * (1 / c)", Numbers.ROUNDING)


def DivToMul() -> FunctionPass:
    """The pass that multiplies by reciprocals instead of dividing by constants."""
    return call_rule_pass("DivToMul", 0, {"divide": divide_to_multiply}, LAW)
