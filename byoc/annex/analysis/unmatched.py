"""The values that a match does not cover. Source: ``src/relay/analysis/match_exhaustion.cc``.

A candidate pattern is tried against the clauses in order; where a clause asks for more than the candidate says, the
candidate is expanded into all patterns that say it, and these are tried in turn.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.module import IRModule
from byoc.relay.adt import (
    Match,
    Pattern,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    pattern_children,
)


class _Fit(enum.Enum):
    YES = enum.auto()
    NO = enum.auto()
    UNKNOWN = enum.auto()


def unmatched_cases(match: Match, mod: IRModule | None = None) -> list[Pattern]:
    """Patterns of the values that no clause of *match* fits; *mod* has the data types of its constructors.

    Raises UserError for a constructor whose data type *mod* does not have. Source: ``relay.analysis.unmatched_cases``.
    """
    failures: list[Pattern] = []
    pending: list[Pattern] = [PatternWildcard()]
    while pending:
        candidate = pending.pop()
        for clause in match.clauses:
            fit = _fit(clause.lhs, candidate)
            if fit is _Fit.UNKNOWN:
                pending.extend(_expanded(clause.lhs, candidate, mod))
            if fit is not _Fit.NO:
                break
        else:
            failures.append(candidate)
    return failures


def _fit(pattern: Pattern, candidate: Pattern) -> _Fit:
    """Whether *pattern* fits all values of *candidate*, none, or not known without expanding the candidate."""
    if isinstance(pattern, (PatternWildcard, PatternVar)):
        return _Fit.YES
    if isinstance(candidate, PatternWildcard):
        return _Fit.UNKNOWN
    if isinstance(pattern, PatternConstructor) and isinstance(candidate, PatternConstructor):
        if pattern.constructor is not candidate.constructor:
            return _Fit.NO
    fits = [_fit(p, c) for p, c in zip(pattern_children(pattern), pattern_children(candidate), strict=False)]
    if _Fit.NO in fits:
        return _Fit.NO
    return _Fit.UNKNOWN if _Fit.UNKNOWN in fits else _Fit.YES


def _expanded(pattern: Pattern, candidate: Pattern, mod: IRModule | None) -> list[Pattern]:
    """The patterns that together stand for *candidate*, each as precise as *pattern* asks for, one level deeper."""
    inner = pattern_children(pattern)
    if isinstance(candidate, PatternWildcard):
        if isinstance(pattern, PatternTuple):
            return [PatternTuple([PatternWildcard() for _ in inner])]
        return _constructors(pattern, mod) if isinstance(pattern, PatternConstructor) else [candidate]
    choices: list[Sequence[Pattern]] = [
        _expanded(p, c, mod) if _fit(p, c) is _Fit.UNKNOWN else [c]
        for p, c in zip(inner, pattern_children(candidate), strict=True)
    ]
    rows = itertools.product(*choices)
    if isinstance(candidate, PatternConstructor):
        return [PatternConstructor(candidate.constructor, row) for row in rows]
    return [PatternTuple(row) for row in rows]


def _constructors(pattern: PatternConstructor, mod: IRModule | None) -> list[Pattern]:
    header = pattern.constructor.belong_to
    if mod is None or header not in mod:
        raise UserError(
            f"the data type {header.name_hint} of the constructor {pattern.constructor.name_hint} is not in the "
            "module: pass the module that defines it"
        )
    return [
        PatternConstructor(c, [PatternWildcard() for _ in c.inputs]) for c in mod.type_definitions[header].constructors
    ]
