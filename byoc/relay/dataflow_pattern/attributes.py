"""Attributes against attributes: of an operator, of a call, of a function. Source: Relay's ``AttrPattern``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.ir.attrs import Attrs, DictAttrs, freeze
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.expr import Call, Function


def _operator_holds(op: Op, name: str, wanted: object) -> bool:
    return op.has_attr(name) and op.get_attr(name) == wanted


def _call_holds(call: Call, name: str, wanted: object) -> bool:
    attrs = call.attrs
    if isinstance(attrs, DictAttrs):  # of a call whose callee is no operator
        return name in attrs and _same(attrs[name], wanted)
    return isinstance(attrs, Attrs) and name in attrs.keys() and attrs[name] == wanted


def _function_holds(func: Function, name: str, wanted: object) -> bool:
    return name in func.attrs and _same(func.attrs[name], wanted)


def _same(value: object, wanted: object) -> bool:
    """Whether two values are equal, lists and tuples by what they hold."""
    first, second = (freeze(v) if isinstance(v, (list, tuple)) else v for v in (value, wanted))
    return bool(first == second)


_HOLDS: dict[type, Callable[..., bool]] = {Op: _operator_holds, Call: _call_holds, Function: _function_holds}


def attributes_match(wanted: Mapping[str, object], expr: RelayExpr) -> bool:
    """True when *expr* has every attribute of *wanted* with that value.

    It is an operator, a call or a function, of which each holds where nothing is wanted; False for other expressions.
    """
    holds = _HOLDS.get(type(expr))
    return holds is not None and all(holds(expr, name, value) for name, value in wanted.items())
