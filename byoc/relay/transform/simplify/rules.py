"""What the rules of SimplifyExpr are made of.

A rule takes a typed operator call and returns what to put in its place, or None. Every rule keeps the type of the
result, so whatever reads it is not disturbed; rules that compare shapes ask that every dimension is a number or a named
size, since two unknown sizes need not be the same. A node made from several carries their spans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.passes.pass_info import Law, Numbers
from byoc.ir.span import AnySpan, merge_spans
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.narrowing import as_call, as_constant, operator_of
from byoc.relay.transform.base.call_rules import call_op

Rule = Callable[[Call], "RelayExpr | None"]
Stated = TypeVar("Stated", bound=Rule)
LAWS: dict[Rule, Law] = {}
"""The equality on which each rule rests, as :func:`law` states it where the rule is defined."""
_NUMPY = {"add": np.add, "multiply": np.multiply}


def law(says: str, numbers: Numbers = Numbers.BITS) -> Callable[[Stated], Stated]:
    """A decorator of a rule, which rests on what it *says*; tests compare both sides wherever the rule applies."""

    def stated(rule: Stated) -> Stated:
        LAWS[rule] = Law(says, numbers)
        return rule

    return stated


@law("x = x, whatever would change nothing between")
def keeps_type(call: Call) -> RelayExpr | None:
    """The argument, where the result has its type and every dimension of it is known by number or name."""
    data, result = call.args[0], call.checked_type
    known = isinstance(result, TensorType) and result.is_symbolic
    return data if known and data.checked_type == result else None


def spans_of(*sources: RelayExpr) -> AnySpan | None:
    """The spans of all *sources* together."""
    return merge_spans(s.span for s in sources)


def merged(name: str, args: list[RelayExpr], attrs: Mapping[str, object], *sources: RelayExpr) -> Call:
    """The call of operator *name* that was made from *sources*."""
    return call_op(name, args, spans_of(*sources), **attrs)


def is_constant(expr: RelayExpr) -> bool:
    """True for a constant, and for a sum or product of two, as the rules leave them for FoldConstant."""
    if isinstance(expr, Constant):
        return True
    return calls(expr, *_NUMPY) and all(isinstance(a, Constant) for a in expr.args)


def folded(expr: RelayExpr) -> Constant:
    """What :func:`is_constant` accepts, as a constant."""
    if isinstance(expr, Constant):
        return expr
    values = [as_constant(a).data.numpy() for a in as_call(expr).args]
    with np.errstate(all="ignore"):
        result = _NUMPY[operator_of(expr).name](*values)
    return constant(np.asarray(result, values[0].dtype), span=expr.span)


def of_constants(name: str, left: RelayExpr, right: RelayExpr) -> Call | None:
    """The sum or product of two constants for FoldConstant; None where it is larger than either."""
    a, b = folded(left), folded(right)
    elements = int(np.prod(np.broadcast_shapes(a.data.shape, b.data.shape)))
    if elements > max(a.data.numpy().size, b.data.numpy().size):
        return None
    return call_op(name, [a, b], merge_spans([left.span, right.span]))


def with_constant(call: Call) -> tuple[RelayExpr, RelayExpr] | None:
    """A binary call as (what is not constant, the constant)."""
    left, right = call.args
    if is_constant(right) and not is_constant(left):
        return left, right
    return (right, left) if is_constant(left) and not is_constant(right) else None


def is_all(expr: RelayExpr, value: float) -> bool:
    """True for a constant, or a call that fills a tensor (``zeros``, ``full``), all of whose elements are *value*."""
    if isinstance(expr, Constant):
        return expr.data.dtype != "string" and bool(np.all(expr.data.numpy() == value))
    traits = traits_of(expr)
    if traits is not None and traits.fill is not None:
        return value == traits.fill
    return calls(expr, "full") and is_all(expr.args[0], value)
