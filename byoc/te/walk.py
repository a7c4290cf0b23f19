"""The nodes of an expression, and the tensors under one, each once and without recursion: expressions may be deep."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence

from byoc.te.expr import Binary, Cast, Checked, Const, Index, Intrinsic, PrimExpr, Reduce, Select, Size, binary, cast
from byoc.te.tensor import Load, Tensor


def operands(expr: PrimExpr) -> tuple[PrimExpr, ...]:
    """The sub-expressions of a node; the definition of a loaded tensor is not one."""
    return _OPERANDS[type(expr)](expr)


_OPERANDS: dict[type, Callable[..., tuple[PrimExpr, ...]]] = {
    Const: lambda e: (),
    Index: lambda e: (),
    Size: lambda e: (),
    Binary: lambda e: (e.left, e.right),
    Intrinsic: lambda e: e.args,
    Cast: lambda e: (e.value,),
    Select: lambda e: (e.cond, e.then, e.otherwise),
    Checked: lambda e: (e.index, e.extent),
    Load: lambda e: e.indices,
    Reduce: lambda e: (e.body,),
}

_WITH_OPERANDS: dict[type, Callable[..., PrimExpr]] = {
    Binary: lambda e, new: binary(e.op, *new),
    Intrinsic: lambda e, new: Intrinsic(e.name, new),
    Cast: lambda e, new: cast(e.dtype, new[0]),
    Select: lambda e, new: Select(*new),
    Checked: lambda e, new: Checked(new[0], new[1], e.check),
    Load: lambda e, new: e.of(e.tensor, new),
    Reduce: lambda e, new: Reduce(e.kind, new[0], e.axes),
}


def walk(expr: PrimExpr) -> Iterator[PrimExpr]:
    """Every node under *expr*, parents first; a shared node as often as it is used."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(operands(node)))


def map_expr(expr: PrimExpr, leaf: Callable[[PrimExpr], PrimExpr | None]) -> PrimExpr:
    """*expr* with every node for which *leaf* gives another replaced by it, top down; what was shared stays shared."""
    return _map_expr(expr, leaf, {})


def _map_expr(expr: PrimExpr, leaf: Callable[[PrimExpr], PrimExpr | None], memo: dict[int, PrimExpr]) -> PrimExpr:
    known = memo.get(id(expr))
    if known is not None:
        return known
    result = leaf(expr)
    if result is None:
        inner = operands(expr)
        new = [_map_expr(e, leaf, memo) for e in inner]
        same = all(a is b for a, b in zip(inner, new, strict=True))
        result = expr if same else _WITH_OPERANDS[type(expr)](expr, new)
    memo[id(expr)] = result
    return result


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
