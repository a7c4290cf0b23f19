"""Recurrences: tensors whose elements at one step are computed from elements at steps before.

The first axis of every tensor in a recurrence is the step, and all have as many steps. A tensor that is read at
earlier steps is declared with :func:`state` and defined with :func:`update`; between them, tensors that use it are
defined by ``compute`` as always. What belongs to a recurrence follows from who reads whom: it is a cycle. Within a
step, a tensor reads others at its own step (the index is its first axis itself) where these are computed before it;
at any other index it reads steps before. As ``tvm.te.scan``, without a node of its own.

>>> from byoc.te.tensor import if_then_else, placeholder
>>> x = placeholder((5, 3), name="x")
>>> total = state((5, 3), "float32", "total")
>>> update(total, lambda t, i: if_then_else(t > 0, total[t - 1, i], 0.0) + x[t, i])
>>> [s.name for s in recurrence([total])]
['total']
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from byoc.errors import InternalError
from byoc.te.expr import Dimension, Index, Number, PrimExpr
from byoc.te.tensor import Load, Tensor
from byoc.te.walk import unique_nodes


def state(shape: Sequence[Dimension], dtype: str, name: str) -> Tensor:
    """A tensor that is read before it is defined: ``shape[0]`` steps. :func:`update` defines it."""
    return Tensor(name, shape, dtype, [Index(f"i{k}", extent) for k, extent in enumerate(shape)])


def update(tensor: Tensor, fcompute: Callable[..., Number]) -> None:
    """Define what one element of a :func:`state` is: ``fcompute(step, i, ...)``.

    Raises InternalError where it is defined already, or where the element has another dtype.
    """
    body = fcompute(*tensor.axes)
    if tensor.body is not None or not isinstance(body, PrimExpr) or body.dtype != tensor.dtype:
        raise InternalError(f"te: {tensor} cannot be defined by {body!r}")
    tensor.body = body


def recurrence(stages: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Those of *stages* that stand in a cycle, in the order in which one step computes them; empty without a cycle.

    Raises InternalError where tensors of one step need each other, and where one recurrence needs another's result:
    each is a loop of its own.
    """
    reads = {s: frozenset(load.tensor for load in _loads(s)) for s in stages}
    place = {s: k for k, s in enumerate(stages)}
    if all(place.get(read, -1) < k for k, s in enumerate(stages) for read in reads[s]):
        return ()
    reached = {s: _reached(s, reads) for s in stages}
    ring = [s for s in stages if s in reached[s]]
    between = [
        s for s in stages if s not in ring and reached[s].intersection(ring) and any(s in reached[r] for r in ring)
    ]
    if between or len({s.shape[0] for s in ring}) > 1:
        raise InternalError(f"te: {', '.join(s.name for s in ring)} are more than one recurrence")
    order = _ordered(ring, {s: _at_its_own_step(s) for s in ring})
    if order is None:
        raise InternalError(f"te: {', '.join(s.name for s in ring)} need each other within one step")
    return tuple(order)


def in_phases(stages: Sequence[Tensor]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], tuple[Tensor, ...]]:
    """*stages* that are computed before their recurrence, those in it, and those after; without one all are first."""
    ring = recurrence(stages)
    reads = {s: frozenset(load.tensor for load in _loads(s)) for s in stages}
    behind = [s for s in stages if s not in ring and not _reached(s, reads).isdisjoint(ring)]
    return tuple(s for s in stages if s not in ring and s not in behind), ring, tuple(behind)


def _loads(stage: Tensor) -> list[Load]:
    return [] if stage.body is None else [n for n in unique_nodes(stage.body) if isinstance(n, Load)]


def _at_its_own_step(stage: Tensor) -> frozenset[Tensor]:
    return frozenset(load.tensor for load in _loads(stage) if load.indices and load.indices[0] is stage.axes[0])


def _reached(start: Tensor, reads: Mapping[Tensor, Iterable[Tensor]]) -> frozenset[Tensor]:
    """The tensors that *start* reads, and those that these read."""
    found: set[Tensor] = set()
    stack = [start]
    while stack:
        for tensor in reads.get(stack.pop(), ()):
            if tensor not in found:
                found.add(tensor)
                stack.append(tensor)
    return frozenset(found)


def _ordered(stages: Sequence[Tensor], reads: Mapping[Tensor, Iterable[Tensor]]) -> list[Tensor] | None:
    """*stages* with each behind those that it reads, else as they stand; None where that cannot be."""
    order: dict[Tensor, None] = {}
    waiting = list(stages)
    inside = set(stages)
    while waiting:
        ready = [s for s in waiting if all(r in order or r not in inside for r in reads[s])]
        if not ready:
            return None
        order.update(dict.fromkeys(ready))
        waiting = [s for s in waiting if s not in order]
    return list(order)
