"""ToANormalForm: every intermediate value is bound by a let, in the order of evaluation.

Each expression is bound in the innermost scope that holds all its uses (:mod:`byoc.relay.analysis.scopes`), so that
nothing is evaluated twice and a branch keeps what it alone needs. Variables, operators and global names stay inline;
functions that are units (``Primitive``) are bound as they are. Source: ``relay.transform.ToANormalForm``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import ModulePass, PassInfo
from byoc.relay.adt import Match
from byoc.relay.analysis.scopes import NAMES, Scopes, scope_children
from byoc.relay.expr import Call, Function, If, Let, Var
from byoc.relay.narrowing import as_call
from byoc.relay.op.device_placement import is_on_device
from byoc.relay.transform.base.infer_type import is_optimizable
from byoc.relay.traverse import rebuild

Binding = tuple[Var, RelayExpr]
# bindings in their order, lists of inner scopes among them
Bindings = list["Binding | Bindings"]


def ToANormalForm() -> ModulePass:
    """The pass that binds every intermediate value of every function."""

    def transform(mod: IRModule, ctx: object) -> IRModule:
        result = mod.shallow_copy()
        for var, func in mod.functions.items():
            if is_optimizable(func):
                result[var] = to_a_normal_form(func)
        return result

    return ModulePass(
        transform, PassInfo("ToANormalForm", 1, gives=("a_normal_form",), ends=("typed", "graph_normal_form"))
    )


def ToANormalFormExpr(e: RelayExpr) -> RelayExpr:
    """*e* alone with every intermediate value bound. Source: ``relay.transform.ToANormalFormExpr``."""
    return to_a_normal_form(e)


def to_a_normal_form(root: RelayExpr) -> RelayExpr:
    """*root* with every intermediate value bound; a function at the root is not bound itself."""
    return Fill(Scopes(root)).run(root)


class Fill:
    """Binds the expressions of one graph, or only those of *included*, in their scopes."""

    def __init__(self, scopes: Scopes, included: Container[RelayExpr] | None = None):
        self._scopes, self._included = scopes, included
        self._bindings: dict[int, Bindings] = {}
        self._memo: dict[RelayExpr, RelayExpr] = {}
        self._devices: list[Call] = []
        self._root: RelayExpr | None = None

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* over bindings."""
        self._root = root
        stack: list[tuple[RelayExpr, Var | None, bool]] = [(root, None, False)]
        while stack:
            node, bound_to, done = stack.pop()
            if done:
                self._memo[node] = self._leave(node, bound_to)
            elif node in self._memo:
                if bound_to is not None:
                    self._push(node, bound_to, self._memo[node])
            else:
                stack.append((node, bound_to, True))
                stack.extend((child, var, False) for child, var in reversed(self._enter(node, bound_to)))
        return self._block(0, self._memo[root])

    def _enter(self, node: RelayExpr, bound_to: Var | None) -> list[tuple[RelayExpr, Var | None]]:
        """What is evaluated before *node*, with the variable that it is bound to."""
        if isinstance(node, Let):
            return [(node.value, node.variable), (node.body, None)]
        if _is_fixed_on_device(node):
            self._devices.append(as_call(node))
            return [(as_call(node).args[0], bound_to)]
        return [(child, None) for child in scope_children(node)]

    def _leave(self, node: RelayExpr, bound_to: Var | None) -> RelayExpr:
        """What stands for *node* where it is used: a variable, mostly."""
        if isinstance(node, NAMES):
            if bound_to is not None:
                self._push(node, bound_to, node)
            return node
        if _is_fixed_on_device(node):
            self._devices.pop()
            return rebuild(node, [self._memo[as_call(node).args[0]]])
        if node is self._root and isinstance(node, Function):
            return self._made_again(node)
        if bound_to is None and self._included is not None and node not in self._included:
            return self._on_device(self._made_again(node))
        if isinstance(node, Let):  # its bindings become those of the scope around it
            inner = self._bindings.pop(self._scopes.opened[node][0], [])
            self._bindings.setdefault(self._scopes.of[node], []).append(inner)
            return self._push(node, bound_to or Var("x"), self._memo[node.body])
        return self._push(node, bound_to or Var("x"), self._made_again(node))

    def _made_again(self, node: RelayExpr) -> RelayExpr:
        inner = scope_children(node)
        opened = self._scopes.opened.get(node, ())
        if isinstance(node, Let):
            return self._block(opened[0], self._memo[node.body])
        if not inner:
            return node
        new = [self._memo[child] for child in inner]
        if isinstance(node, (If, Match, Function)):
            for at, scope in zip(range(len(new) - len(opened), len(new)), opened, strict=True):
                new[at] = self._block(scope, new[at])
        if isinstance(node, Call) and len(new) == len(node.args):
            return Call(node.op, new, node.attrs, node._type_args, node.span)
        return rebuild(node, new)

    def _push(self, node: RelayExpr, var: Var, value: RelayExpr) -> Var:
        self._bindings.setdefault(self._scopes.of[node], []).append((var, self._on_device(value)))
        return var

    def _on_device(self, value: RelayExpr) -> RelayExpr:
        """*value* with the innermost annotation of a device around it."""
        return rebuild(self._devices[-1], [value]) if self._devices else value

    def _block(self, scope: int, result: RelayExpr) -> RelayExpr:
        """The bindings of *scope* around *result*."""
        for var, value in reversed(list(_flat(self._bindings.pop(scope, [])))):
            result = Let(var, value, result, value.span)
        return result


def _is_fixed_on_device(node: RelayExpr) -> bool:
    """True for an ``on_device`` call that fixes where its argument is computed and kept."""
    return is_on_device(node) and bool(node.attrs.constrain_body and node.attrs.constrain_result)


def _flat(bindings: Bindings) -> Iterator[Binding]:
    stack = [iter(bindings)]
    while stack:
        item = next(stack[-1], None)
        if item is None:
            stack.pop()
        elif isinstance(item, list):
            stack.append(iter(item))
        else:
            yield item
