"""The matcher: does an expression look like a pattern, and which node matched which part of it?

Invariant: one pattern object matches one expression within a match; a failed part forgets what it matched. A rule is
a generator that yields its sub-goals, so that recursive patterns over long chains need no recursion. The first
alternative that matches is kept: there is no way back into it. Source: Relay's ``DFPatternMatcher``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.types import TensorType
from byoc.relay.analysis.module_types import infer_type_local
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.dataflow_pattern import patterns as p
from byoc.relay.dataflow_pattern.attributes import attributes_match
from byoc.relay.dataflow_pattern.equality import matches_expression
from byoc.relay.dataflow_pattern.indexed_graph import IndexedGraph
from byoc.relay.dataflow_pattern.pattern_graph import operator_called, operator_name
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var
from byoc.relay.traverse import children

Goal = tuple[p.DFPattern, RelayExpr]
Search = Generator[Goal, bool, bool]
Memo = dict[p.DFPattern, list[RelayExpr]]


class Matcher:
    """Matches patterns against expressions of one graph; ``memo`` holds what the last match found, by pattern."""

    def __init__(self, graph: IndexedGraph | Callable[[], IndexedGraph]):
        self._graph = graph
        self.memo: Memo = {}
        self._trail: list[p.DFPattern] = []
        self._once = True

    @property
    def graph(self) -> IndexedGraph:
        """The graph, indexed when a dominator pattern first asks for it."""
        if not isinstance(self._graph, IndexedGraph):
            self._graph = self._graph()
        return self._graph

    def match(self, pattern: p.DFPattern, expr: RelayExpr) -> bool:
        """True when *expr* looks like *pattern*; forgets the match before."""
        self.memo, self._trail, self._once = {}, [], True
        known = self._quick(pattern, expr)
        if known is not None:
            return known
        open_goals: list[tuple[p.DFPattern, RelayExpr, int, Search]] = [self._open(pattern, expr)]
        answer: bool | None = None
        while open_goals:
            goal_pattern, goal_expr, mark, search = open_goals[-1]
            try:
                wanted = next(search) if answer is None else search.send(answer)
            except StopIteration as done:
                open_goals.pop()
                answer = bool(done.value)
                self._close(goal_pattern, goal_expr, mark, answer)
                continue
            answer = self._quick(*wanted)
            if answer is None:
                open_goals.append(self._open(*wanted))
        return bool(answer)

    def _open(self, pattern: p.DFPattern, expr: RelayExpr) -> tuple[p.DFPattern, RelayExpr, int, Search]:
        return pattern, expr, len(self._trail), _RULES[type(pattern)](self, pattern, expr)

    def _close(self, pattern: p.DFPattern, expr: RelayExpr, mark: int, matched: bool) -> None:
        if matched:
            self._record(pattern, expr)
        else:
            self.forget(mark)

    def _quick(self, pattern: p.DFPattern, expr: RelayExpr) -> bool | None:
        """The answer where no sub-goal is needed, else None."""
        if self._once and pattern in self.memo:
            return self.memo[pattern][-1] is expr
        leaf = _LEAVES.get(type(pattern))
        if leaf is None:
            return None
        answer = leaf(pattern, expr)
        if answer:
            self._record(pattern, expr)
        return answer

    def _record(self, pattern: p.DFPattern, expr: RelayExpr) -> None:
        self.memo.setdefault(pattern, []).append(expr)
        self._trail.append(pattern)

    @property
    def mark(self) -> int:
        """A place to which :meth:`forget` can go back."""
        return len(self._trail)

    def forget(self, mark: int) -> None:
        """Undo what was matched since *mark*."""
        while len(self._trail) > mark:
            pattern = self._trail.pop()
            found = self.memo[pattern]
            found.pop()
            if not found:
                del self.memo[pattern]

    def together(self, goals: Sequence[Goal]) -> Search:
        """Match all of *goals* in order, or none."""
        mark = self.mark
        for goal in goals:
            if not (yield goal):
                self.forget(mark)
                return False
        return True


def _wildcard(pattern: p.WildcardPattern, expr: RelayExpr) -> bool | None:
    return True if pattern.pattern is None else None


# pattern class -> its answer without sub-goals, or None where it has some
_LEAVES: dict[type, Callable[..., bool | None]] = {
    p.WildcardPattern: _wildcard,
    p.ExprPattern: lambda pattern, expr: matches_expression(pattern.expr, expr),
    p.VarPattern: lambda pattern, expr: type(expr) is Var and pattern.name in ("", expr.name_hint),
    p.ConstantPattern: lambda pattern, expr: type(expr) is Constant,
}


def _redirected(m: Matcher, pattern: p.WildcardPattern, expr: RelayExpr) -> Search:
    assert pattern.pattern is not None  # one that stands for nothing has its answer in _LEAVES
    return (yield pattern.pattern, expr)


def _alternative(m: Matcher, pattern: p.AltPattern, expr: RelayExpr) -> Search:
    return (yield pattern.left, expr) or (yield pattern.right, expr)


def _arguments(m: Matcher, patterns: Sequence[p.DFPattern] | None, args: Sequence[RelayExpr]) -> Search:
    if patterns is None:
        return True
    if len(patterns) != len(args):
        return False
    return (yield from m.together(list(zip(patterns, args, strict=True))))


def _call(m: Matcher, pattern: p.CallPattern, expr: RelayExpr) -> Search:
    if not isinstance(expr, Call):
        return False
    if (yield pattern.op, expr.op):
        if (yield from _arguments(m, pattern.args, expr.args)):
            return True
        op = operator_called(pattern)
        if op is not None and op.traits.either_order:
            return (yield from _arguments(m, pattern.args and pattern.args[::-1], expr.args))
        return False
    for other in _reassociated(pattern, expr):
        if (yield other, expr):
            return True
    return False


def _reassociated(pattern: p.CallPattern, expr: Call) -> list[p.CallPattern]:
    """The pattern (a*b)/c as a*(b/c) and b*(a/c), and a*(b/c) as (a*b)/c, where *expr* has that other form."""
    name, args = operator_name(pattern), pattern.args
    if args is None or len(args) != 2:
        return []
    if name == "divide" and calls(expr, "multiply") and any(calls(arg, "divide") for arg in expr.args):
        product = args[0]
        if not isinstance(product, p.CallPattern) or operator_name(product) != "multiply" or product.args is None:
            return []
        a, b = product.args
        mul = product.op
        return [
            p.CallPattern(mul, [other, p.CallPattern(pattern.op, [one, args[1]])]) for one, other in ((a, b), (b, a))
        ]
    if name == "multiply" and calls(expr, "divide") and any(calls(arg, "multiply") for arg in expr.args):
        return [
            p.CallPattern(q.op, [p.CallPattern(pattern.op, [q.args[0], other]), q.args[1]])
            for q, other in ((args[0], args[1]), (args[1], args[0]))
            if isinstance(q, p.CallPattern) and operator_name(q) == "divide" and q.args is not None
        ]
    return []


def _function(m: Matcher, pattern: p.FunctionPattern, expr: RelayExpr) -> Search:
    if not isinstance(expr, Function):
        return False
    if not (yield from _arguments(m, pattern.params, expr.params)):
        return False
    return (yield pattern.body, expr.body)


def _tuple(m: Matcher, pattern: p.TuplePattern, expr: RelayExpr) -> Search:
    return isinstance(expr, Tuple) and (yield from _arguments(m, pattern.fields, expr.fields))


def _item(m: Matcher, pattern: p.TupleGetItemPattern, expr: RelayExpr) -> Search:
    if not isinstance(expr, TupleGetItem) or pattern.index not in (-1, expr.index):
        return False
    return (yield pattern.tuple, expr.tuple_value)


def _if(m: Matcher, pattern: p.IfPattern, expr: RelayExpr) -> Search:
    if not isinstance(expr, If):
        return False
    return (
        yield from m.together(
            [
                (pattern.cond, expr.cond),
                (pattern.true_branch, expr.true_branch),
                (pattern.false_branch, expr.false_branch),
            ]
        )
    )


def _let(m: Matcher, pattern: p.LetPattern, expr: RelayExpr) -> Search:
    if not isinstance(expr, Let):
        return False
    return (
        yield from m.together([(pattern.var, expr.variable), (pattern.value, expr.value), (pattern.body, expr.body)])
    )


def _attributes(m: Matcher, pattern: p.AttrPattern, expr: RelayExpr) -> Search:
    return (yield pattern.pattern, expr) and attributes_match(pattern.attrs, expr)


def _type(m: Matcher, pattern: p.TypePattern, expr: RelayExpr) -> Search:
    return infer_type_local(expr) == pattern.type and (yield pattern.pattern, expr)


def _shape(m: Matcher, pattern: p.ShapePattern, expr: RelayExpr) -> Search:
    ty = infer_type_local(expr)
    return isinstance(ty, TensorType) and ty.shape == pattern.shape and (yield pattern.pattern, expr)


def _dtype(m: Matcher, pattern: p.DataTypePattern, expr: RelayExpr) -> Search:
    ty = infer_type_local(expr)
    return isinstance(ty, TensorType) and ty.dtype == pattern.dtype and (yield pattern.pattern, expr)


def _dominator(m: Matcher, pattern: p.DominatorPattern, expr: RelayExpr) -> Search:
    if not (yield pattern.child, expr):
        return False
    seen: set[RelayExpr] = set()
    pending = [expr]
    while pending:
        node = pending.pop()
        sources = _dataflow_inputs(node)
        if not sources:
            return False  # a path up that ends without reaching the parent
        for source in sources:
            if source in seen:
                continue
            seen.add(source)
            if (yield pattern.parent, source):
                continue
            m._once = False  # a path pattern may match many nodes
            on_path = yield pattern.path, source
            m._once = True
            if not on_path:
                return False
            pending.append(source)
    parents = m.memo.get(pattern.parent)
    return parents is not None and m.graph.dominates(expr, parents[-1])


def _dataflow_inputs(expr: RelayExpr) -> list[RelayExpr]:
    inputs = expr.args if isinstance(expr, Call) else children(expr)
    return [node for node in inputs if not isinstance(node, (Var, Constant))]


_RULES: dict[type, Callable[..., Search]] = {
    p.WildcardPattern: _redirected,
    p.AltPattern: _alternative,
    p.CallPattern: _call,
    p.FunctionPattern: _function,
    p.TuplePattern: _tuple,
    p.TupleGetItemPattern: _item,
    p.IfPattern: _if,
    p.LetPattern: _let,
    p.AttrPattern: _attributes,
    p.TypePattern: _type,
    p.ShapePattern: _shape,
    p.DataTypePattern: _dtype,
    p.DominatorPattern: _dominator,
}
