"""Reshapes in a row as one: the functions that only reshape are joined, and what all of them ask for together is found.

A size is a number times sizes of the input that are not known; products and quotients of such give numbers again where
the unknown ones cancel, as in ``(n, 16)`` reshaped to ``[-1, 4]`` and then ``[0, 2, -1]``, which is ``[-1, 2, 2]``.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from byoc.ir.expr import RelayExpr
from byoc.ir.types import Dim, TensorType
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.traverse import post_order, rewrite, substitute
from byoc.runtime.kernels.core.attributes import plan_newshape


def join_reshapes(root: Function) -> Function:
    """*root*, typed, with a call of a reshaping function on the result of another as a call of one function."""

    def join(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        outer = _reshaping(after)
        if outer is None or not isinstance(after, Call) or not isinstance(after.args[0], Call):
            return after
        inner = _reshaping(after.args[0])
        if inner is None:
            return after
        body = substitute(outer.body, {outer.params[0]: inner.body})
        made = Function(inner.params, body, outer.declared_ret_type, (), outer.attrs, outer.span)
        return Call(made, after.args[0].args, span=after.span)

    return as_function(rewrite(root, join))


def _reshaping(expr: RelayExpr) -> Function | None:
    """The function that *expr* calls, where it does nothing but reshape its only parameter."""
    if not isinstance(expr, Call) or not isinstance(expr.op, Function) or not expr.op.attrs.get("Primitive"):
        return None
    inner = [node for node in post_order(expr.op.body) if isinstance(node, Call)]
    only = all(calls(call, "reshape") and not call.attrs.allowzero for call in inner)
    return expr.op if len(expr.op.params) == 1 and inner and only else None


@dataclass(frozen=True)
class _Size:
    """``number`` times the unknown sizes *unknown*, each so many times."""

    number: int = 1
    unknown: Counter[object] = field(default_factory=Counter)

    def times(self, other: _Size) -> _Size:
        return _Size(self.number * other.number, self.unknown + other.unknown)

    def by(self, other: _Size) -> _Size:
        """The quotient; a new unknown size where it cannot be said."""
        if other.number and self.number % other.number == 0 and not other.unknown - self.unknown:
            return _Size(self.number // other.number, self.unknown - other.unknown)
        return _Size(1, Counter([object()]))


def _product(sizes: Sequence[_Size]) -> _Size:
    total = _Size()
    for size in sizes:
        total = total.times(size)
    return total


def combined_newshape(shape: Sequence[Dim], newshapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    """What reshapes a tensor of *shape* at once as *newshapes* do one after another; None where it cannot be said."""
    sizes = [_Size(dim) if isinstance(dim, int) else _Size(1, Counter([(at, dim)])) for at, dim in enumerate(shape)]
    for newshape in newshapes:
        made: list[_Size | None] = []
        for new in plan_newshape(len(sizes), [int(n) for n in newshape]):
            size = _product([sizes[at] for at in new.source]).times(_Size(new.number)).by(_Size(new.divisor))
            made.append(None if new.inferred else size)
        rest = _product(sizes).by(_product([size for size in made if size is not None]))
        sizes = [rest if size is None else size for size in made]
    unknown = sum(bool(size.unknown) for size in sizes)
    if unknown > 1 or math.prod(size.number for size in sizes) == 0:
        return None
    return tuple(-1 if size.unknown else size.number for size in sizes)


def newshape_of(body: RelayExpr) -> tuple[int, ...] | None:
    """What a function's *body* of ``reshape`` calls asks for together; None where it cannot be said."""
    newshapes: list[Sequence[int]] = []
    while isinstance(body, Call):
        newshapes.append(body.attrs.newshape)
        body = body.args[0]
    ty = body.checked_type
    return combined_newshape(ty.shape, newshapes[::-1]) if isinstance(ty, TensorType) else None
