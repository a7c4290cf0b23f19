"""The nodes of an expression, and the tensors under one, each once and without recursion: expressions may be deep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from byoc.te.expr import Checked, Load, PrimExpr, operands
from byoc.te.tensor import Tensor


def reachable(roots: Sequence[PrimExpr], inner: Callable[[PrimExpr], Sequence[PrimExpr]]) -> Iterator[PrimExpr]:
    """*roots* and what *inner* leads to from them, each node once, before those that it alone leads to."""
    stack = list(reversed(roots))
    seen = {id(root) for root in roots}
    while stack:
        node = stack.pop()
        yield node
        for other in reversed(inner(node)):
            if id(other) not in seen:
                seen.add(id(other))
                stack.append(other)


def unique_nodes(expr: PrimExpr) -> Iterator[PrimExpr]:
    """Every node under *expr* once, parents before children in some path."""
    return reachable([expr], operands)


def mentions(expr: PrimExpr, axis: PrimExpr) -> bool:
    """Whether *axis* itself stands in *expr*."""
    return any(node is axis for node in unique_nodes(expr))


def loaded_tensors(expr: PrimExpr) -> list[Tensor]:
    """The tensors that *expr* loads from, in the order of their first use."""
    return list(dict.fromkeys(n.tensor for n in unique_nodes(expr) if isinstance(n, Load)))


def checks_of(bodies: Sequence[PrimExpr]) -> tuple[str, ...]:
    """The names of the checks of indices in *bodies*, in the order of their first use."""
    nodes = (n for body in bodies for n in unique_nodes(body))
    return tuple(dict.fromkeys(n.check for n in nodes if isinstance(n, Checked)))


def computed_under(outputs: Sequence[Tensor], ready: Container[Tensor]) -> list[Tensor]:
    """The computed tensors under *outputs*, themselves too, that are not *ready*; producers first but in a cycle."""
    order: list[Tensor] = []
    seen: set[Tensor] = set()
    stack = [(tensor, False) for tensor in reversed(outputs)]
    while stack:
        tensor, expanded = stack.pop()
        if expanded:
            order.append(tensor)
        elif tensor not in seen and tensor not in ready and tensor.body is not None:
            seen.add(tensor)
            stack.append((tensor, True))
            stack.extend((t, False) for t in reversed(loaded_tensors(tensor.body)))
    return order
