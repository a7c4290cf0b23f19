"""SimplifyExpr's rule of quadratic forms: ``a*x*x + b*x*y + c*y*y`` is a product of two sums.

Source: ``SimplifyBinomial`` of ``src/relay/transforms/simplify_expr.cc``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.passes.pass_info import Numbers
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Constant, const
from byoc.relay.transform.base.call_rules import call_op
from byoc.relay.transform.simplify.rules import law, spans_of

DTYPES = ("int32", "float32", "float64")
SAME_ROOTS = 1e-4  # a discriminant below this is taken for 0
TERMS, FACTORS = 3, 4  # more belong to no form of this kind


@dataclass
class _Term:
    """A product: its scalar constants multiplied, and its other factors in their order."""

    coefficient: float
    factors: list[RelayExpr]


def _operands(expr: RelayExpr, name: str, most: int) -> list[RelayExpr]:
    """The leaves of a nest of calls of operator *name*, from the left; it is not opened where there are more."""
    found: list[RelayExpr] = []
    stack = [expr]
    while stack:
        top = stack.pop()
        if calls(top, name) and len(found) + len(stack) < most:
            stack.extend(reversed(top.args))
        else:
            found.append(top)
    return found


def _term(expr: RelayExpr) -> _Term:
    term = _Term(1.0, [])
    for factor in _operands(expr, "multiply", FACTORS):
        if isinstance(factor, Constant) and factor.data.ndim == 0:
            term.coefficient *= float(factor.data.numpy())
        else:
            term.factors.append(factor)
    return term


@law("a x x + b x + c = a (x - r) (x - s) with its roots r and s", Numbers.ROUNDING)
def binomial(call: Call) -> RelayExpr | None:
    """``a*x*x + b*x*y + c*y*y`` is ``a*((x + y*p)*(x + y*q))`` where p and q are real."""
    ty = call.checked_type
    if not isinstance(ty, TensorType) or ty.dtype not in DTYPES:
        return None
    terms = [_term(part) for part in _operands(call, "add", TERMS)]
    if len(terms) != TERMS or any(len(term.factors) != 2 for term in terms):
        return None
    squares = {term.factors[0]: term.coefficient for term in terms if term.factors[0] is term.factors[1]}
    crossed = [term for term in terms if term.factors[0] is not term.factors[1]]
    if len(crossed) != 1 or set(squares) != set(crossed[0].factors):
        return None
    x, y = crossed[0].factors
    a, b, c = squares[x], crossed[0].coefficient, squares[y]
    if c == 1 and a > 1:
        x, y, a, c = y, x, c, a
    discriminant = b * b - 4 * a * c
    if a == 0 or discriminant < 0:
        return None
    root = 0.0 if discriminant < SAME_ROOTS else math.sqrt(discriminant)
    values = [(b + root) / (2 * a), (b - root) / (2 * a)]
    if ty.dtype == "int32" and not all(value.is_integer() for value in (a, *values)):
        return None  # a root that is no integer would be cut off
    span = spans_of(call)

    def factor(value: float) -> Call:
        scaled = y if value == 1 else call_op("multiply", [y, const(value, ty.dtype)], span)
        return call_op("add", [x, scaled], span)

    first = factor(values[0])
    second = first if root == 0 else factor(values[1])
    product = call_op("multiply", [first, second], span)
    return product if a == 1 else call_op("multiply", [const(a, ty.dtype), product], span)
