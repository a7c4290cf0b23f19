"""What PartitionGraph does first: no region returns a tuple that it only makes, and the default has no regions.

Source: ``FlattenNestedTuples`` and ``RemoveDefaultAnnotations`` of Relay.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import RelayExpr
from byoc.relay.expr import Function, Tuple
from byoc.relay.op.annotation import compiler_end, compiler_of, is_begin, is_end
from byoc.relay.traverse import post_order
from byoc.relay.typed_rewrite import keep_type, typed_rewrite

DEFAULT = "default"


def flatten_tuples(func: Function) -> Function:
    """*func* where a tuple that leaves a region is made outside of it, of fields that leave it."""

    def flatten(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if is_end(after) and isinstance(after.args[0], Tuple):  # type: ignore[attr-defined]
            return _end_fields(after.args[0], compiler_of(after))  # type: ignore[attr-defined, arg-type]
        return after

    if not any(is_end(n) and isinstance(n.args[0], Tuple) for n in post_order(func)):  # type: ignore[attr-defined]
        return func
    return typed_rewrite(func, flatten)  # type: ignore[return-value]


def _fields(expr: RelayExpr) -> Sequence[RelayExpr]:
    return expr.fields if isinstance(expr, Tuple) else ()


def _end_fields(root: Tuple, compiler: str) -> RelayExpr:
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(root, _fields):
        if isinstance(node, Tuple):
            memo[node] = keep_type(node, Tuple([memo[f] for f in node.fields], node.span))
        elif is_begin(node):
            memo[node] = node.args[0]  # type: ignore[attr-defined]
        else:
            memo[node] = compiler_end(node, compiler)
    return memo[root]


def remove_default_annotations(func: Function) -> Function:
    """*func* without the annotations of the default."""

    def is_default(expr: RelayExpr) -> bool:
        return (is_begin(expr) or is_end(expr)) and compiler_of(expr) == DEFAULT  # type: ignore[arg-type]

    def remove(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        return after.args[0] if is_default(after) else after  # type: ignore[attr-defined]

    if not any(map(is_default, post_order(func))):
        return func
    return typed_rewrite(func, remove)  # type: ignore[return-value]
