"""Taking algebraic data apart: patterns, clauses and ``match``. Source: ``tvm.relay.adt``.

Nodes are immutable as all expressions are. A :class:`PatternVar` binds its variable in the clause that it stands in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.expr import Constructor, RelayExpr, TypeData
from byoc.ir.span import AnySpan
from byoc.relay.expr import Var, check_expr
from byoc.relay.operator_overloads import ExprWithOp


class Pattern:
    """The root of the patterns of ``match``."""

    __slots__ = ("span",)

    def __init__(self, span: AnySpan | None = None):
        self.span = span


class PatternWildcard(Pattern):
    """Fits every value."""

    __slots__ = ()


class PatternVar(Pattern):
    """Fits every value and binds it to *var*."""

    __slots__ = ("var",)

    def __init__(self, var: Var):
        super().__init__()
        if not isinstance(var, Var):
            raise UserError(f"a pattern binds a Var, got {type(var).__name__}")
        self.var = var


class PatternConstructor(Pattern):
    """Fits what *constructor* made, whose fields fit *patterns*; without patterns any fields do."""

    __slots__ = ("constructor", "patterns")

    def __init__(self, constructor: Constructor, patterns: Sequence[Pattern] | None = None):
        super().__init__()
        if not isinstance(constructor, Constructor):
            raise UserError(f"a pattern names a Constructor, got {type(constructor).__name__}")
        self.constructor, self.patterns = constructor, tuple(patterns or ())


class PatternTuple(Pattern):
    """Fits a tuple whose fields fit *patterns*."""

    __slots__ = ("patterns",)

    def __init__(self, patterns: Sequence[Pattern] | None = None):
        super().__init__()
        self.patterns = tuple(patterns or ())


class Clause:
    """What ``match`` gives (*rhs*) where the value fits *lhs*."""

    __slots__ = ("lhs", "rhs")

    def __init__(self, lhs: Pattern, rhs: RelayExpr):
        if not isinstance(lhs, Pattern):
            raise UserError(f"a clause begins with a pattern, got {type(lhs).__name__}")
        self.lhs, self.rhs = lhs, check_expr(rhs, "the result of a clause")


class Match(ExprWithOp):
    """The result of the first of *clauses* that *data* fits; *complete* promises that one does."""

    __slots__ = ("clauses", "complete", "data")

    def __init__(self, data: RelayExpr, clauses: Iterable[Clause], complete: bool = True, span: AnySpan | None = None):
        super().__init__(span)
        self.data = check_expr(data, "the value of a match")
        self.clauses = tuple(clauses)
        self.complete = bool(complete)
        for clause in self.clauses:
            if not isinstance(clause, Clause):
                raise UserError(f"a match consists of clauses, got {type(clause).__name__}")


def pattern_children(pattern: Pattern) -> tuple[Pattern, ...]:
    """The patterns directly inside *pattern*."""
    return pattern.patterns if isinstance(pattern, (PatternConstructor, PatternTuple)) else ()


def patterns_of(pattern: Pattern) -> Iterator[Pattern]:
    """*pattern* and all patterns inside it, outermost first, in the order of the text."""
    stack = [pattern]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(pattern_children(top)))


def pattern_vars(match: Match) -> list[Var]:
    """The variables that the clauses of *match* bind, in the order of the text."""
    return [p.var for clause in match.clauses for p in patterns_of(clause.lhs) if isinstance(p, PatternVar)]


def rename_pattern(pattern: Pattern, names: Mapping[Var, Var]) -> Pattern:
    """*pattern* with each variable replaced by the one that *names* gives for it."""
    if isinstance(pattern, PatternVar):
        new = names.get(pattern.var, pattern.var)
        return pattern if new is pattern.var else PatternVar(new)
    inner = pattern_children(pattern)
    new_inner = [rename_pattern(p, names) for p in inner]
    if all(a is b for a, b in zip(inner, new_inner, strict=True)):
        return pattern
    if isinstance(pattern, PatternConstructor):
        return PatternConstructor(pattern.constructor, new_inner)
    return PatternTuple(new_inner)


__all__ = [
    "Clause",
    "Constructor",
    "Match",
    "Pattern",
    "PatternConstructor",
    "PatternTuple",
    "PatternVar",
    "PatternWildcard",
    "TypeData",
    "pattern_vars",
    "patterns_of",
]
