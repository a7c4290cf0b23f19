"""Whether a plan uses the layouts that were written into its module for the backends that ask for them.

Composites and casts are formed behind the layouts, so that the calls of both modules are numbered differently: which
decision a call belongs to is found by walking both at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.contract.verdict import callee_name
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_of, functions_of, is_composite
from byoc.partition.content.cut import PlannedCut
from byoc.partition.cut.casting import with_casts
from byoc.partition.cut.layouts import AskedLayouts
from byoc.relay.expr import Call, Function
from byoc.relay.traverse import children


def is_used(asked: AskedLayouts, plan: PlannedCut, laid: IRModule, numbers: Sequence[int | None]) -> bool:
    """Whether a call that is turned, as *asked*, is in a region of a target that asked.

    *plan* is that of *laid*, the module with its layouts, whose calls have *numbers* in the module before.
    """
    calls = [call for _, func in functions_of(laid) for call in calls_of(func)]
    turned = [call for call, n in zip(calls, numbers, strict=True) if n in asked.turned]
    names = {callee_name(call) for call in turned}
    inside: set[str] = set()  # the operators of those regions, and of all else
    outside: set[str] = set()
    for decision in plan.decisions:
        (inside if decision.target in asked.by else outside).update((decision.operator, *decision.inside))
    if names.isdisjoint(inside):
        return False
    if not names <= outside:  # one is nowhere else
        return True
    composed = plan.composed(laid)
    origin = with_casts(composed, plan.places)[1] if plan.places else range(len(plan.decisions))
    target = {n: d.target for n, d in zip(origin, plan.decisions, strict=True) if n is not None}
    number = {call: n for n, call in enumerate(c for _, func in functions_of(composed) for c in calls_of(func))}
    holders = _holders(laid, composed)
    return any(target[number[holders[call]]] in asked.by for call in turned)


def _holders(laid: IRModule, composed: IRModule) -> dict[Call, Call]:
    """For each call of *laid* the call of *composed*, which has composites around some, that it is or is inside of."""
    found: dict[Call, Call] = {}
    bodies = {var: func.body for var, func in functions_of(composed)}
    for var, func in functions_of(laid):
        _pair(func.body, bodies[var], found)
    return found


ArgumentOf = Mapping[RelayExpr, "UsedPlace"]  # what the parameters of a composite stand for
UsedPlace = tuple[RelayExpr, ArgumentOf, Call | None]  # an expression, in which composite it is, and that one's call


def _pair(body: RelayExpr, composed: RelayExpr, found: dict[Call, Call]) -> None:
    """Add to *found* the calls below *body*, which *composed* is with composites."""
    seen: set[RelayExpr] = set()
    pending: list[tuple[RelayExpr, UsedPlace]] = [(body, (composed, {}, None))]
    while pending:
        one, place = pending.pop()
        if one in seen:
            continue
        seen.add(one)
        is_whole = isinstance(one, Call) and is_composite(one)
        other, given, holder = place if is_whole else _entered(place)
        if isinstance(one, Call) and isinstance(other, Call):
            found[one] = holder or other
        below = zip(_below(one), _below(other), strict=True)
        pending += [(a, (b, given, holder)) for a, b in below]


def _below(expr: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *expr*; of a composite's call, which is one operator, its arguments."""
    return expr.args if isinstance(expr, Call) and is_composite(expr) else children(expr)


def _entered(place: UsedPlace) -> UsedPlace:
    """*place* where it is no composite's call and no parameter of one: what that stands for."""
    other, given, holder = place
    while True:
        if other in given:
            other, given, holder = given[other]
        elif isinstance(other, Call) and isinstance(other.op, Function) and is_composite(other):
            outer: ArgumentOf = {p: (a, given, holder) for p, a in zip(other.op.params, other.args, strict=True)}
            holder = holder or other
            other, given = other.op.body, outer
        else:
            return other, given, holder
