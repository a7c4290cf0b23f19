"""The graph of a pattern: its parts in post-order, which of them are inputs, and at which nodes it can begin.

Source: Relay's ``IndexedGraph<DFPattern>``, whose order gives the parameters of a composite function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.dataflow_pattern.indexed_graph import RootKey, root_key
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var

Parts = Sequence[p.DFPattern]
Leaves = Callable[[RelayExpr], tuple[RelayExpr, ...]]  # what of a node that a part matched is left open

# pattern class -> its parts in the order of visiting
PARTS: dict[type, Callable[..., Parts]] = {
    p.WildcardPattern: lambda q: () if q.pattern is None else (q.pattern,),
    p.ExprPattern: lambda q: (),
    p.VarPattern: lambda q: (),
    p.ConstantPattern: lambda q: (),
    p.CallPattern: lambda q: (q.op, *(q.args or ())),
    p.FunctionPattern: lambda q: (*(q.params or ()), q.body),
    p.IfPattern: lambda q: (q.cond, q.true_branch, q.false_branch),
    p.LetPattern: lambda q: (q.var, q.value, q.body),
    p.TuplePattern: lambda q: q.fields or (),
    p.TupleGetItemPattern: lambda q: (q.tuple,),
    p.AltPattern: lambda q: (q.left, q.right),
    p.TypePattern: lambda q: (q.pattern,),
    p.DataTypePattern: lambda q: (q.pattern,),
    p.ShapePattern: lambda q: (q.pattern,),
    p.AttrPattern: lambda q: (q.pattern,),
    p.DominatorPattern: lambda q: (q.parent, q.path, q.child),
}


def pattern_post_order(pattern: p.DFPattern) -> list[p.DFPattern]:
    """Each part of *pattern* once, parts before what they are part of; a recursive pattern ends where it recurs."""
    order: list[p.DFPattern] = []
    seen = {pattern}
    stack: list[tuple[p.DFPattern, Iterator[p.DFPattern]]] = [(pattern, iter(PARTS[type(pattern)](pattern)))]
    while stack:
        node, pending = stack[-1]
        part = next((q for q in pending if q not in seen), None)
        if part is None:
            order.append(node)
            stack.pop()
        else:
            seen.add(part)
            stack.append((part, iter(PARTS[type(part)](part))))
    return order


_CLASSES: dict[type, tuple[RootKey, ...]] = {
    p.VarPattern: (Var,),
    p.ConstantPattern: (Constant,),
    p.FunctionPattern: (Function,),
    p.IfPattern: (If,),
    p.LetPattern: (Let,),
    p.TuplePattern: (Tuple,),
    p.TupleGetItemPattern: (TupleGetItem,),
}
_SEE_THROUGH: dict[type, Callable[..., p.DFPattern | None]] = {
    p.WildcardPattern: lambda q: q.pattern,
    p.TypePattern: lambda q: q.pattern,
    p.DataTypePattern: lambda q: q.pattern,
    p.ShapePattern: lambda q: q.pattern,
    p.AttrPattern: lambda q: q.pattern,
    p.DominatorPattern: lambda q: q.child,
}


def root_keys(pattern: p.DFPattern) -> frozenset[RootKey] | None:
    """What a node must be for *pattern* to match it, or None where that is not known beforehand."""
    keys: set[RootKey] = set()
    pending: list[p.DFPattern] = [pattern]
    seen: set[p.DFPattern] = set()
    while pending:
        q = pending.pop()
        if q in seen:
            continue
        seen.add(q)
        if isinstance(q, p.AltPattern):
            pending += (q.left, q.right)
        elif isinstance(q, p.CallPattern):
            found = _callee_keys(q)
            if found is None:
                return None
            keys |= found
        elif type(q) in _CLASSES:
            keys.update(_CLASSES[type(q)])
        else:
            inner = _SEE_THROUGH[type(q)](q) if type(q) in _SEE_THROUGH else None
            if inner is None:
                return None
            pending.append(inner)
    return frozenset(keys)


def _callee_keys(pattern: p.CallPattern) -> set[RootKey] | None:
    """The operators that a call pattern can begin at; products and quotients may stand in each other's form."""
    keys: set[RootKey] = set()
    pending: list[p.DFPattern] = [pattern.op]
    while pending:
        q = pending.pop()
        if isinstance(q, p.AltPattern):
            pending += (q.left, q.right)
        elif isinstance(q, p.AttrPattern):
            pending.append(q.pattern)
        elif isinstance(q, p.FunctionPattern):
            keys.add(Call)
        elif isinstance(q, p.ExprPattern):
            keys.add(q.expr if isinstance(q.expr, Op) else Call)
        else:
            return None
    if operator_name(pattern) == "divide":  # (a * b) / c also begins at a product
        keys.update(_operators_called(pattern.args, "multiply"))
    if operator_name(pattern) == "multiply":  # a * (b / c) also begins at a quotient
        keys.update(_operators_called(pattern.args, "divide"))
    return keys


def _operators_called(patterns: Parts | None, name: str) -> list[Op]:
    """The operators called *name* of those *patterns* that are calls of them."""
    found = [operator_called(q) for q in patterns or ()]
    return [op for op in found if op is not None and op.name == name]


def operator_called(pattern: p.DFPattern) -> Op | None:
    """The operator of a call pattern; None where the pattern is another one or leaves it open."""
    callee = pattern.op if isinstance(pattern, p.CallPattern) else None
    return callee.expr if isinstance(callee, p.ExprPattern) and isinstance(callee.expr, Op) else None


def operator_name(pattern: p.DFPattern) -> str:
    """The name of :func:`operator_called`; "" for none."""
    op = operator_called(pattern)
    return "" if op is None else op.name


class ArgumentFilter:
    """A quick look at the arguments of a call before a pattern of its operator is tried on it."""

    def __init__(self, pattern: p.DFPattern):
        self._op: Op | None = None
        self._wanted: list[frozenset[RootKey]] = []
        if isinstance(pattern, p.CallPattern) and isinstance(pattern.op, p.ExprPattern):
            if isinstance(pattern.op.expr, Op):
                self._op = pattern.op.expr
                self._wanted = [keys for a in pattern.args or () if (keys := root_keys(a)) is not None]

    def admits(self, node: RelayExpr) -> bool:
        """False where the pattern cannot match: an argument that it asks for is in no place of the call."""
        if not self._wanted or type(node) is not Call or node.op is not self._op:
            return True
        found = [root_key(arg) for arg in node.args]
        for keys in self._wanted:
            for key in found:
                if key in keys:
                    break
            else:
                return False
        return True


FUZZY = (p.DominatorPattern, p.FunctionPattern)


def leaves_of(part: p.DFPattern) -> Leaves | None:
    """What of a node that *part* matched is left open: all its arguments or fields, itself, or (None) nothing."""
    if isinstance(part, p.CallPattern) and part.args is None:
        return _args
    if isinstance(part, p.TuplePattern) and part.fields is None:
        return _fields
    return None if PARTS[type(part)](part) else _itself


def _itself(node: RelayExpr) -> tuple[RelayExpr, ...]:
    return (node,)


def _args(node: RelayExpr) -> tuple[RelayExpr, ...]:
    return node.args if isinstance(node, Call) else ()


def _fields(node: RelayExpr) -> tuple[RelayExpr, ...]:
    return node.fields if isinstance(node, Tuple) else ()


@dataclass(frozen=True)
class PatternGraph:
    """What is known of a pattern before it is tried: found once, since tables of patterns are asked again and again."""

    parts: Sequence[p.DFPattern]
    root_keys: frozenset[RootKey] | None
    arguments: ArgumentFilter
    operators: frozenset[Op]
    open_parts: Sequence[tuple[p.DFPattern, Leaves]]
    fuzzy_parts: Sequence[p.DFPattern]
    redirected: Sequence[tuple[p.WildcardPattern, p.DFPattern | None]]

    @property
    def holds(self) -> bool:
        """Whether its wildcards stand for what they stood for: all else of a pattern never changes."""
        return all(wildcard.pattern is stood_for for wildcard, stood_for in self.redirected)


def graph_of(pattern: p.DFPattern) -> PatternGraph:
    """The graph of *pattern*, which is kept with it."""
    found = getattr(pattern, "facts", None)
    if not isinstance(found, PatternGraph) or not found.holds:
        found = pattern.facts = _graph(pattern)
    return found


def _graph(pattern: p.DFPattern) -> PatternGraph:
    parts = pattern_post_order(pattern)
    named = (part.expr for part in parts if isinstance(part, p.ExprPattern))
    return PatternGraph(
        parts,
        root_keys(pattern),
        ArgumentFilter(pattern),
        frozenset(expr for expr in named if isinstance(expr, Op)),
        [(part, leaves) for part in parts if (leaves := leaves_of(part))],
        [part for part in parts if isinstance(part, FUZZY)],
        [(part, part.pattern) for part in parts if isinstance(part, p.WildcardPattern)],
    )
