"""Sequences whose length is known when importing: tuples, until a function takes or gives them as values."""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TupleType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Tuple, TupleGetItem


def known_fields(value: RelayExpr) -> list[RelayExpr] | None:
    """The elements of a sequence whose length is known; None for another."""
    ty = infer_expr(value)
    if isinstance(value, Tuple):
        return list(value.fields)
    return [TupleGetItem(value, k) for k in range(len(ty.fields))] if isinstance(ty, TupleType) else None


def as_sequence(value: RelayExpr) -> RelayExpr:
    """*value*, which may be a tuple, as a value of ``relay.op.sequence``; tensors stay as they are."""
    fields = known_fields(value)
    if fields is None:
        return value
    from byoc.relay.op import sequence

    made: RelayExpr = sequence.empty()
    for field in fields:
        made = sequence.insert(made, as_sequence(field))
    infer_expr(made)
    return made
