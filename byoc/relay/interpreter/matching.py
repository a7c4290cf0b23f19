"""Which clause of a match fits a value, and what its pattern binds. Source: ``tvm.relay.adt``."""

from __future__ import annotations

from byoc.errors import UserError
from byoc.relay.adt import (
    Clause,
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
)
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Var
from byoc.relay.interpreter.values import ConstructorValue, Value


def first_fitting(match: Match, value: Value) -> tuple[Clause, dict[Var, Value]]:
    """The first clause of *match* that *value* fits, with the values of its variables.

    Raises UserError where none fits.
    """
    for clause in match.clauses:
        bound = bindings(clause.lhs, value)
        if bound is not None:
            return clause, bound
    raise UserError(f"no clause of a match fits {value!r}{located(match)}: add one, or a wildcard as the last")


def bindings(pattern: Pattern, value: Value) -> dict[Var, Value] | None:
    """The values of the variables of *pattern* where *value* fits it, else None."""
    bound: dict[Var, Value] = {}
    pending: list[tuple[Pattern, Value]] = [(pattern, value)]
    while pending:
        part, found = pending.pop()
        if isinstance(part, PatternVar):
            bound[part.var] = found
        elif not isinstance(part, PatternWildcard):
            fields = _fields(part, found)
            if fields is None:
                return None
            pending.extend(fields)
    return bound


def _fields(pattern: Pattern, value: Value) -> list[tuple[Pattern, Value]] | None:
    """The inner patterns with the values that they must fit, or None where *value* is of another kind."""
    if isinstance(pattern, PatternTuple) and isinstance(value, list):
        found = value
    elif isinstance(pattern, PatternConstructor) and isinstance(value, ConstructorValue):
        made = value.constructor or pattern.constructor
        if made is not pattern.constructor and made.tag < 0:
            return None
        if value.tag != pattern.constructor.tag:
            return None
        if not pattern.patterns:
            return []
        found = value.fields  # type: ignore[assignment]
    else:
        return None
    return list(zip(pattern.patterns, found, strict=True)) if len(found) == len(pattern.patterns) else None
