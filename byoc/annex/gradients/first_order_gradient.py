"""Reverse-mode gradients of straight-line code, as a graph.

Nodes are visited from the result down; each gives its arguments their share by the rule of its operator. The forward
nodes are those of the function itself, so that nothing is computed twice. It walks by a loop of its own, since nothing
is replaced: gradients are summed from the result down. Source: ``FirstOrderGradient`` of Relay.
"""

from __future__ import annotations

from byoc.annex.analysis.call_graph import GlobalCalls
from byoc.annex.functional.de_duplicate import applied, dedup
from byoc.annex.gradients.rules import gradient_rule
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.ir.types import TensorType, TupleType
from byoc.relay import op
from byoc.relay.analysis.module_types import infer_module, typed_expr
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var
from byoc.relay.transform.functional.to_graph_normal_form import to_graph_normal_form
from byoc.relay.traverse import post_order, rewrite

# the gradient of a node: an expression, or for a tuple those of the fields that have one
Cotangent = RelayExpr | dict[int, "Cotangent"]


def first_order_gradient(func: Function, mod: IRModule | None) -> Function:
    """The function that returns the result of *func* and the gradients of its parameters.

    Raises UserError for branches, recursion, references and algebraic data.
    """
    straight = typed_expr(_straight(func, mod), mod)
    assert isinstance(straight, Function)
    backward = _Backward()
    backward.add(straight.body, _seed(straight.body, straight.body.checked_type))
    for node in reversed(list(post_order(straight.body))):
        backward.visit(node)
    grads = [backward.of(param) for param in straight.params]
    return Function(straight.params, Tuple([straight.body, Tuple(grads)]))


def _straight(func: Function, mod: IRModule | None) -> RelayExpr:
    """*func* without lets and calls of functions."""
    calls = GlobalCalls(mod) if mod is not None else None

    def inlined(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if isinstance(after, Call) and isinstance(after.op, Function):
            return applied(after.op, after.args, after.type_args)
        if isinstance(before, GlobalVar) and mod is not None and calls is not None and before in mod:
            if before in calls.recursive:
                raise UserError(f"@{before.name_hint} is recursive: use gradient(…, mode='higher_order')")
            return dedup(mod[before])
        return after

    expr: RelayExpr = dedup(func)
    while True:
        new = to_graph_normal_form(rewrite(expr, inlined))
        if new is expr:
            return new
        expr = new


def _seed(expr: RelayExpr, ty: object) -> Cotangent:
    if isinstance(ty, TupleType):
        return {k: _seed(_field(expr, k), field) for k, field in enumerate(ty.fields)}
    return op.ones_like(expr)


def _field(expr: RelayExpr, index: int) -> RelayExpr:
    if isinstance(expr, Tuple):
        return expr.fields[index]
    return TupleGetItem(expr, index)


class _Backward:
    """What is known of the gradients of nodes."""

    def __init__(self) -> None:
        self._found: dict[RelayExpr, Cotangent] = {}

    def add(self, node: RelayExpr, grad: Cotangent) -> None:
        """Add *grad* to the gradient of *node*."""
        known = self._found.get(node)
        self._found[node] = grad if known is None else _sum(known, grad)

    def of(self, node: RelayExpr) -> RelayExpr:
        """The gradient of *node* as an expression; zeros where nothing came."""
        return _whole(self._found.get(node), node, node.checked_type)

    def visit(self, node: RelayExpr) -> None:
        """Give the sub-expressions of *node* their shares."""
        if isinstance(node, (Var, Constant)) or node not in self._found:
            return
        grad = self._found[node]
        if isinstance(node, Tuple):
            for index, field in enumerate(node.fields):
                part = grad.get(index) if isinstance(grad, dict) else TupleGetItem(grad, index)
                if part is not None:
                    self.add(field, part)
        elif isinstance(node, TupleGetItem):
            self.add(node.tuple_value, {node.index: grad})
        elif isinstance(node, Call) and isinstance(node.op, Op):
            shares = gradient_rule(node)(node, self.of(node))
            for arg, share in zip(node.args, shares, strict=True):
                ty = arg.checked_type
                if isinstance(ty, TensorType) and ty.dtype == "bool":  # a condition, which cannot be added to
                    continue
                self.add(arg, _split(share, ty))
        else:
            raise UserError(
                f"first-order gradients take straight-line code, not a {type(node).__name__}{located(node)}: use "
                "mode='higher_order'"
            )


def _split(grad: RelayExpr, ty: object) -> Cotangent:
    if isinstance(ty, TupleType):
        return {k: _split(_field(grad, k), field) for k, field in enumerate(ty.fields)}
    return grad


def _sum(left: Cotangent, right: Cotangent) -> Cotangent:
    if isinstance(left, dict) and isinstance(right, dict):
        merged = dict(left)
        for index, part in right.items():
            merged[index] = _sum(merged[index], part) if index in merged else part
        return merged
    assert isinstance(left, RelayExpr) and isinstance(right, RelayExpr)
    return op.add(left, right)


def _whole(grad: Cotangent | None, node: RelayExpr, ty: object) -> RelayExpr:
    if isinstance(ty, TupleType):
        parts = grad if isinstance(grad, dict) else {}
        return Tuple([_whole(parts.get(k), _field(node, k), field) for k, field in enumerate(ty.fields)])
    return grad if isinstance(grad, RelayExpr) else op.zeros_like(node)


def FirstOrderGradient() -> ModulePass:
    """The pass after which every function returns ``(result, (gradient of each parameter, …))``."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        typed = infer_module(mod)
        result = typed.shallow_copy()
        for var, func in typed.functions.items():
            if isinstance(func, Function):
                made = first_order_gradient(func, typed)
                result[var] = Function(made.params, made.body, span=func.span)
        return infer_module(result)

    return ModulePass(transform, PassInfo("FirstOrderGradient", ends=("typed", "graph_normal_form", *REWRITES)))
