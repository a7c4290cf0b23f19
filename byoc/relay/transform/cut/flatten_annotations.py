"""What PartitionGraph does first: no region returns a tuple that it only makes, and the default has no regions.

Source: ``FlattenNestedTuples`` and ``RemoveDefaultAnnotations`` of Relay.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.relay.expr import Function, Tuple
from byoc.relay.narrowing import as_function
from byoc.relay.op.annotation import compiler_end, compiler_of, is_begin, is_end
from byoc.relay.traverse import post_order, typed_rewrite

DEFAULT = "default"


def without_defaults_and_tuples(func: Function) -> Function:
    """*func* where a tuple that leaves a region is made outside of it, and without the annotations of the default."""
    marks = [node for node in post_order(func) if is_end(node) or is_begin(node)]
    if any(is_end(mark) and isinstance(mark.args[0], Tuple) for mark in marks):
        func = as_function(typed_rewrite(func, _flattened))
        marks = [node for node in post_order(func) if is_end(node) or is_begin(node)]
    if any(compiler_of(mark) == DEFAULT for mark in marks):
        func = as_function(typed_rewrite(func, _without_default))
    return func


def _flattened(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    if is_end(after) and isinstance(after.args[0], Tuple):
        return _end_fields(after.args[0], compiler_of(after))
    return after


def _without_default(before: RelayExpr, after: RelayExpr) -> RelayExpr:
    return after.args[0] if (is_begin(after) or is_end(after)) and compiler_of(after) == DEFAULT else after


def _fields(expr: RelayExpr) -> Sequence[RelayExpr]:
    return expr.fields if isinstance(expr, Tuple) else ()


def _end_fields(root: Tuple, compiler: str) -> RelayExpr:
    """*root* with the end of the region at each of its fields."""

    def ended(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(before, Tuple):
            return after
        return before.args[0] if is_begin(before) else compiler_end(before, compiler)

    return typed_rewrite(root, ended, _fields)
