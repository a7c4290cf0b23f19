"""DeadCodeElimination: bindings that nothing reads are dropped, unless making their value has an effect.

An effect is writing a reference, a stateful operator (``TOpIsStateful``), or a call of a function that may have one.
What dataflow alone does not reach is dead by construction. In the pipeline (``EliminateHostDeadCode``) a projection of
a tuple that stands in the graph, or is bound by a let, becomes the field itself, so that the other fields die; Relay's
pass leaves projections alone. Source: ``relay.transform.DeadCodeElimination``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import ModulePass, PassContext, PassInfo
from byoc.relay.analysis.contents import contents_of
from byoc.relay.expr import Call, Function, Let, RefRead, RefWrite, Tuple, TupleGetItem, Var
from byoc.relay.narrowing import as_function, as_item
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import children, post_order, rewrite, typed_rewrite


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
            if self._acts(node) or not self.acting.isdisjoint(inner):
                self.acting.add(node)
            if isinstance(node, RefRead) or not self.reading.isdisjoint(inner):
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
    """The lets that are needed: those whose variable is read or whose value has an effect."""
    waiting: dict[RelayExpr, Let] = {}
    live: set[RelayExpr] = set()
    bindings: set[RelayExpr] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node in live:
            continue
        live.add(node)
        if isinstance(node, Let):
            stack.append(node.body)
            if node.value in acting or node.variable in live:
                bindings.add(node)
                stack.append(node.value)
            else:
                waiting[node.variable] = node
            continue
        if node in waiting:
            let = waiting.pop(node)
            bindings.add(let)
            stack.append(let.value)
        stack.extend(fusion_children(node))
    return bindings


def _project_tuples(root: RelayExpr, effects: _Effects) -> RelayExpr:
    """*root* with projections of visible tuples replaced by the fields."""

    def project(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if not isinstance(before, TupleGetItem) or before in effects.acting or before in effects.reading:
            return after
        value = as_item(after).tuple_value
        if isinstance(value, Var):
            bound = effects.bound.get(value, value)
            if bound in effects.acting or bound in effects.reading:
                return after
            value = bound
        return value.fields[before.index] if isinstance(value, Tuple) else after

    return rewrite(root, project, fusion_children)


def _may_have_dead_code(root: RelayExpr) -> bool:
    """Whether *root* holds a binding or a projection: what nobody reads is not reached else."""
    if isinstance(root, Function):
        return not contents_of(root).nodes.isdisjoint((Let, TupleGetItem))
    return any(isinstance(node, (Let, TupleGetItem)) for node in post_order(root))


def eliminate_dead_code(
    root: RelayExpr, mod: IRModule | None = None, ignore_impurity: bool = False, project: bool = True
) -> RelayExpr:
    """*root* without bindings that nothing reads, nor tuple fields with *project*; effects keep number and order.

    With *ignore_impurity*, what has an effect goes as well where nothing reads its result.
    """
    if not _may_have_dead_code(root):
        return root
    if project:
        root = _project_tuples(root, _Effects(mod).scan(root))
    live = _live(root, set() if ignore_impurity else _Effects(mod).scan(root).acting)

    def needed(node: RelayExpr) -> Sequence[RelayExpr]:
        return (node.body,) if isinstance(node, Let) and node not in live else fusion_children(node)

    def without_dead(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        return after.body if isinstance(after, Let) and before not in live else after

    return typed_rewrite(root, without_dead, needed)


def inline_single_uses(root: RelayExpr, mod: IRModule | None, ignore_impurity: bool) -> RelayExpr:
    """*root* with each binding that is used once, in the function that makes it, replaced by its value.

    What has an effect, or reads what an effect may change, stays where it is.
    """
    effects = _Effects(mod).scan(root)
    uses, owner = _uses_and_owners(root)
    bound: dict[RelayExpr, RelayExpr] = {}
    for let in post_order(root, _value_first):
        if isinstance(let, Let) and uses.get(let.variable) == 1 and uses[let.value] == 1:
            impure = let.value in effects.acting or let.value in effects.reading
            if (ignore_impurity or not impure) and owner[let.variable] is owner[let] is not None:
                bound[let.variable] = let.value
    done: dict[RelayExpr, RelayExpr] = {}

    def inlined(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if before in bound:
            return done[bound[before]]
        return done[before.body] if isinstance(before, Let) and before.variable in bound else after

    return typed_rewrite(root, inlined, _value_first, done)


def _value_first(node: RelayExpr) -> Sequence[RelayExpr]:
    return (node.value, node.variable, node.body) if isinstance(node, Let) else fusion_children(node)


def _read_children(node: RelayExpr) -> Sequence[RelayExpr]:
    """The sub-expressions of *node* that it reads: what a let binds is not one, the inside of a function neither."""
    if isinstance(node, Let):
        return (node.value, node.body)
    return () if isinstance(node, Function) else fusion_children(node)


def _uses_and_owners(root: RelayExpr) -> tuple[dict[RelayExpr, int], dict[RelayExpr, RelayExpr | None]]:
    """How often each node is read, and the function whose body reads it; None for several functions."""
    uses: dict[RelayExpr, int] = {}
    owner: dict[RelayExpr, RelayExpr | None] = {}
    for function in post_order(root, fusion_children):
        if not isinstance(function, Function) and function is not root:
            continue
        body = function.body if isinstance(function, Function) else function
        if not fusion_children(function):
            continue
        for node in post_order(body, _read_children):
            if node in owner:  # two functions share it
                owner[node] = None
                continue
            owner[node] = function
            for child in _read_children(node):
                uses[child] = uses.get(child, 0) + 1
    return uses, owner


def DeadCodeElimination(inline_once: bool = False, ignore_impurity: bool = False) -> ModulePass:
    """The pass that drops bindings that nothing reads, in all functions; types are not inferred afterwards.

    With *inline_once*, what is bound and read once moves to where it is read; with *ignore_impurity*, writes to
    references and stateful operators count as without effect.
    """

    def eliminate(mod: IRModule, ctx: PassContext) -> IRModule:
        result = mod.shallow_copy()
        for var, func in mod.functions.items():
            if isinstance(func, Function):
                new = eliminate_dead_code(func, mod, ignore_impurity, project=False)
                result[var] = inline_single_uses(new, mod, ignore_impurity) if inline_once else new
        return result

    return ModulePass(
        eliminate,
        PassInfo(
            "DeadCodeElimination",
            1,
            ("InferType",),
            ends=REWRITES,
            law=Law("what nobody reads has no part in the result"),
        ),
    )


def EliminateHostDeadCode() -> FunctionPass:
    """DeadCodeElimination of the pipeline, of the same name: fields of tuples that nothing reads go too."""

    def eliminate(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(eliminate_dead_code(func, mod))

    return FunctionPass(
        eliminate,
        PassInfo(
            "DeadCodeElimination",
            1,
            ("InferType",),
            ends=REWRITES,
            law=Law("what nobody reads has no part in the result"),
        ),
    )
