"""Where an expression came from, for messages."""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.ir.span import span_names


def located(expr: RelayExpr) -> str:
    """`` (node Conv_12)`` for an expression that came from one, else nothing."""
    names = span_names(expr.span)
    return f" (node {', '.join(names)})" if names else ""
