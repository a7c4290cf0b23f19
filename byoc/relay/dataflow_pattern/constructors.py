"""The short names that pattern tables are written in. Source: ``relay.dataflow_pattern``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import Dim, Type
from byoc.relay.dataflow_pattern.patterns import (
    AttrPattern,
    ConstantPattern,
    DataTypePattern,
    DFPattern,
    DominatorPattern,
    ExprPattern,
    IfPattern,
    LetPattern,
    ShapePattern,
    TupleGetItemPattern,
    TuplePattern,
    TypePattern,
    VarPattern,
    wildcard,
)


def is_var(name: str = "") -> VarPattern:
    """A variable; of that name, unless it is empty."""
    return VarPattern(name)


def is_constant() -> ConstantPattern:
    """A constant."""
    return ConstantPattern()


def is_expr(expr: RelayExpr) -> ExprPattern:
    """What is structurally equal to *expr*."""
    return ExprPattern(expr)


def is_tuple(fields: Sequence[DFPattern] | None) -> TuplePattern:
    """A tuple of *fields*; None leaves them open."""
    return TuplePattern(fields)


def is_tuple_get_item(tuple_value: DFPattern, index: int | None = None) -> TupleGetItemPattern:
    """Field *index* of *tuple_value*; None is any field."""
    return TupleGetItemPattern(tuple_value, index)


def is_if(cond: DFPattern, true_branch: DFPattern, false_branch: DFPattern) -> IfPattern:
    """An if of these three."""
    return IfPattern(cond, true_branch, false_branch)


def is_let(var: DFPattern, value: DFPattern, body: DFPattern) -> LetPattern:
    """A let of these three."""
    return LetPattern(var, value, body)


def has_type(ttype: Type, pattern: DFPattern | None = None) -> TypePattern:
    """What *pattern* (anything by default) matches, of type *ttype*."""
    return TypePattern(wildcard() if pattern is None else pattern, ttype)


def has_dtype(dtype: str, pattern: DFPattern | None = None) -> DataTypePattern:
    """What *pattern* (anything by default) matches, a tensor of dtype *dtype*."""
    return DataTypePattern(wildcard() if pattern is None else pattern, dtype)


def has_shape(shape: Sequence[Dim], pattern: DFPattern | None = None) -> ShapePattern:
    """What *pattern* (anything by default) matches, a tensor of shape *shape*."""
    return ShapePattern(wildcard() if pattern is None else pattern, shape)


def has_attr(attrs: Mapping[str, object], pattern: DFPattern | None = None) -> AttrPattern:
    """What *pattern* (anything by default) matches, with these attributes."""
    return AttrPattern(wildcard() if pattern is None else pattern, attrs)


def dominates(parent: DFPattern, path: DFPattern, child: DFPattern) -> DominatorPattern:
    """*child* where every path up from it stays within *path* until it reaches *parent*."""
    return DominatorPattern(parent, path, child)
