"""Tuples as lists of tensors, as the memory dialect of Relay takes them apart, and its operators.

Source: ``relay.op.memory``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Tuple, TupleGetItem
from byoc.relay.op.memory_allocation import alloc_storage, alloc_tensor, kill


def flatten_tuple_type(ty: Type) -> list[TensorType]:
    """The tensors in *ty*, tuples flattened. Raises UserError for a function or a reference."""
    return list(tensor_types(ty))


def from_tuple_type(ty: Type, expr: RelayExpr) -> list[RelayExpr]:
    """The expressions of the tensors in *expr*, which has type *ty*. Raises UserError for other types."""
    flat: list[RelayExpr] = []
    stack: list[tuple[Type, RelayExpr]] = [(ty, expr)]
    while stack:
        kind, value = stack.pop()
        if isinstance(kind, TensorType):
            flat.append(value)
        elif isinstance(kind, TupleType):
            fields = [(f, TupleGetItem(value, k)) for k, f in enumerate(kind.fields)]
            stack.extend(reversed(fields))
        else:
            raise UserError(f"{kind!r} is not a tensor nor a tuple of tensors")
    return flat


def to_tuple_type(ty: Type, exprs: Sequence[RelayExpr]) -> RelayExpr:
    """An expression of type *ty* made of the tensors *exprs*; the inverse of :func:`from_tuple_type`.

    Raises UserError when there are not as many as *ty* has.
    """
    if len(tensor_types(ty)) != len(exprs):
        raise UserError(f"{ty} has {len(tensor_types(ty))} tensors, got {len(exprs)}")
    rest = iter(exprs)
    done: list[RelayExpr] = []
    stack: list[tuple[Type, bool]] = [(ty, False)]
    while stack:
        kind, expanded = stack.pop()
        if not isinstance(kind, TupleType):
            done.append(next(rest))
        elif expanded:
            count = len(kind.fields)
            done[len(done) - count :] = [Tuple(done[len(done) - count :])]
        else:
            stack.append((kind, True))
            stack.extend((f, False) for f in reversed(kind.fields))
    return done[0]


__all__ = ["alloc_storage", "alloc_tensor", "flatten_tuple_type", "from_tuple_type", "kill", "to_tuple_type"]
