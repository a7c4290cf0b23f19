"""DeadCodeElimination: bindings that nothing reads are dropped, unless making their value has an effect.

An effect is writing a reference, a stateful operator (``TOpIsStateful``), or a call of a function that may have one. A
projection of a tuple that stands in the graph, or is bound by a let, becomes the field itself, so that the other fields
die. What dataflow alone does not reach is dead by construction. Source: ``relay.transform.DeadCodeElimination``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.transform import PassContext, PassInfo
from byoc.relay.expr import Call, Function, Let, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.transform.fusion_graph import fusion_children
from byoc.relay.transform.infer_type import FunctionPass
from byoc.relay.traverse import children, post_order, rebuild, rewrite


class _Effects:
    """Which nodes have an effect when they are evaluated, and which read what an effect may change."""

    def __init__(self, mod: IRModule | None, functions: dict[GlobalVar, bool] | None = None):
        self.mod = mod
        self.acting: set[RelayExpr] = set()
        self.reading: set[RelayExpr] = set()
        self.bound: dict[Var, RelayExpr] = {}
        self.seen: set[RelayExpr] = set()
        self.functions = {} if functions is None else functions

    def scan(self, root: RelayExpr) -> _Effects:
        """Look at every node under *root*."""
        bound_by: dict[RelayExpr, list[Var]] = {}
        for node in post_order(root):
            if isinstance(node, Let):
                bound_by.setdefault(node.value, []).append(node.variable)
        for node in post_order(root):
            inner = () if isinstance(node, Function) else children(node)
            if self._acts(node) or any(c in self.acting for c in inner):
                self.acting.add(node)
            if isinstance(node, RefRead) or any(c in self.reading for c in inner):
                self.reading.add(node)
            self.seen.add(node)
            for variable in bound_by.get(node, ()):
                self.bound[variable] = node
        return self

    def _acts(self, node: RelayExpr) -> bool:
        if isinstance(node, RefWrite):
            return True
        if not isinstance(node, Call):
            return False
        if isinstance(node.op, Op):
            return bool(node.op.get_attr("TOpIsStateful"))
        return self._may_act(node.op)

    def _may_act(self, callee: RelayExpr) -> bool:
        """True unless *callee* is a function that was seen to be without effect; what calls itself was not."""
        if isinstance(callee, Var):
            callee = self.bound.get(callee, callee)
        if isinstance(callee, Function):
            return callee.body in self.acting or callee.body not in self.seen
        if not isinstance(callee, GlobalVar) or self.mod is None or callee not in self.mod:
            return True
        if callee not in self.functions:
            self.functions[callee] = True
            func = self.mod[callee]
            if isinstance(func, Function):
                self.functions[callee] = func.body in _Effects(self.mod, self.functions).scan(func).acting
        return self.functions[callee]


def _live(root: RelayExpr, acting: set[RelayExpr]) -> set[RelayExpr]:
    """The nodes that are needed: a let's value only where its variable is read or its value has an effect."""
    waiting: dict[RelayExpr, RelayExpr] = {}
    live: set[RelayExpr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in live:
            continue
        live.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if node.value in acting or node.variable in live:
                stack.append(node.value)
            else:
                waiting[node.variable] = node.value
            continue
        if node in waiting:
            stack.append(waiting.pop(node))
        stack.extend(fusion_children(node))
    return live


def _project_tuples(root: RelayExpr, effects: _Effects) -> RelayExpr:
    """*root* with projections of visible tuples replaced by the fields."""

    def project(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not isinstance(before, TupleGetItem) or before in effects.acting or before in effects.reading:
            return after
        value = after.tuple_value  # type: ignore[attr-defined]
        if isinstance(value, Var):
            bound = effects.bound.get(value, value)
            if bound in effects.acting or bound in effects.reading:
                return after
            value = bound
        return value.fields[before.index] if isinstance(value, Tuple) else after

    return rewrite(root, project, fusion_children)


def eliminate_dead_code(root: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """*root* without bindings and tuple fields that nothing reads; effects keep their number and order."""
    root = _project_tuples(root, _Effects(mod).scan(root))
    live = _live(root, _Effects(mod).scan(root).acting)

    def needed(node: RelayExpr) -> Sequence[RelayExpr]:
        return (node.body,) if isinstance(node, Let) and node.value not in live else fusion_children(node)

    memo: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(root, needed):
        if isinstance(node, Let) and node.value not in live:
            memo[node] = memo[node.body]
        else:
            inner = fusion_children(node)
            memo[node] = rebuild(node, [memo[c] for c in inner]) if inner else node
    return memo[root]


def DeadCodeElimination() -> FunctionPass:  # noqa: N802 - Relay's name
    """The pass that drops what nothing reads."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return eliminate_dead_code(func, mod)  # type: ignore[return-value]

    return FunctionPass(eliminate, PassInfo("DeadCodeElimination", 1, ("InferType",)))
