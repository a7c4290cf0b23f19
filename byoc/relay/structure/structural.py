"""Structural equality and hash: the same graph up to the identity of nodes and the names of variables.

Calls, non-empty tuples, variables, lets, ifs, functions and references are graph nodes: each is paired with exactly
one node of the other side, so that sharing counts. Constants (by their bytes), projections, operators (by identity)
and global names (by name) are compared by value. Parameters and let-bound variables are paired where they are bound,
free ones by identity, or on first meeting with *map_free_vars*. Attributes are compared; spans and inferred types are
not; type arguments only where the callee is no operator. Invariant: what is equal has the same hash, and the hash is
the same in every process. Both are linear and iterative. Source: ``src/node/structural_equal.cc`` of TVM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType

from byoc.errors import UserError
from byoc.ir.collector import paused_collector
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.registry import register_func
from byoc.ir.types import Type
from byoc.relay.expr import (
    Call,
    Function,
    Var,
)
from byoc.relay.narrowing import as_call
from byoc.relay.structure.content import array_key, held, is_graph_node, same_value, steps, value_key
from byoc.relay.structure.types import TypePairs, bound_names, free_types, type_key
from byoc.relay.traverse import binders, children, post_order
from byoc.runtime.core.ndarray import NDArray

# where in the graph: (the place above, the step down)
ExprPath = tuple["ExprPath | None", str]


class StructuralMismatch(UserError, AssertionError):
    """Two things that should be structurally equal and are not: the message says where they differ and how."""


# equality ----------------------------------------------------------------------------------------------------------


class _Comparison:
    """One comparison of two expressions: who is paired with whom, and the first difference."""

    def __init__(self, map_free_vars: bool):
        self._map_free_vars = map_free_vars
        self._right: dict[RelayExpr, RelayExpr] = {}
        self._left: dict[RelayExpr, RelayExpr] = {}
        self._by_value: set[tuple[RelayExpr, RelayExpr]] = set()
        self._types = TypePairs(map_free_vars, same_value)

    def difference(self, a: RelayExpr, b: RelayExpr, root: str) -> str | None:
        """One sentence that says where *a* and *b* first differ, or None."""
        stack: list[tuple[RelayExpr, RelayExpr, ExprPath]] = [(a, b, (None, root))]
        while stack:
            a, b, place = stack.pop()
            why = self._visit(a, b, place, stack)
            if why is not None:
                return f"at {_place_text(place)}: {why}"
        return None

    def _visit(
        self, a: RelayExpr, b: RelayExpr, place: ExprPath, stack: list[tuple[RelayExpr, RelayExpr, ExprPath]]
    ) -> str | None:
        if type(a) is not type(b):
            return f"a {_title(a)} on the left, a {_title(b)} on the right"
        if is_graph_node(a):
            if a in self._right or b in self._left:
                if self._right.get(a) is b:
                    return None
                return f"this {_title(a)} is shared on one side with another use, and not on the other"
            if isinstance(a, Var) and isinstance(b, Var) and a is not b and not self._map_free_vars:
                return f"the free variables %{a.name_hint} and %{b.name_hint} are not the same object"
            self._pair(a, b)
        elif (a, b) in self._by_value:
            return None
        else:
            self._by_value.add((a, b))
        return self._enter(a, b, place, stack)

    def _pair(self, a: RelayExpr, b: RelayExpr) -> None:
        self._right[a], self._left[b] = b, a

    def _enter(
        self, a: RelayExpr, b: RelayExpr, place: ExprPath, stack: list[tuple[RelayExpr, RelayExpr, ExprPath]]
    ) -> str | None:
        if isinstance(a, Function) and isinstance(b, Function) and not self._types.bind(a.type_params, b.type_params):
            return f"the type parameters are {_shown(a.type_params)} on the left, {_shown(b.type_params)} on the right"
        bound_a, bound_b = binders(a), binders(b)
        if len(bound_a) != len(bound_b):
            why = self._held_difference(a, b)
            return why or f"{len(bound_a)} parameters on the left, {len(bound_b)} on the right"
        for var_a, var_b in zip(bound_a, bound_b, strict=True):
            if (var_a in self._right or var_b in self._left) and self._right.get(var_a) is not var_b:
                return f"the variable %{var_a.name_hint} is bound more than once on one side"
            self._pair(var_a, var_b)
            why = self._held_difference(var_a, var_b)
            if why is not None:
                return f"the variables %{var_a.name_hint} and %{var_b.name_hint}: {why}"
        why = self._held_difference(a, b)
        left, right = children(a), children(b)
        if why is not None or len(left) != len(right):
            return why or f"{len(left)} sub-expressions on the left, {len(right)} on the right"
        rows = zip(left, right, steps(a), strict=True)
        stack.extend(reversed([(x, y, (place, step)) for x, y, step in rows]))
        return None

    def _held_difference(self, a: RelayExpr, b: RelayExpr) -> str | None:
        held_a, held_b = held(a), held(b)
        if [name for name, _ in held_a] != [name for name, _ in held_b]:
            return f"a call of {_title(as_call(a).op)} on the left, of {_title(as_call(b).op)} on the right"
        for (name, x), (_, y) in zip(held_a, held_b, strict=True):
            if not self.same_held(x, y):
                return f"{name} is {_shown(x)} on the left, {_shown(y)} on the right"
        return None

    def same_held(self, x: object, y: object) -> bool:
        """Whether what two nodes hold is the same, where type parameters that were paired stand for each other."""
        if isinstance(x, tuple) and isinstance(y, tuple) and x and isinstance(x[0], Type):
            return len(x) == len(y) and all(map(self.same_held, x, y))
        if isinstance(x, Type) and isinstance(y, Type):
            return x is y or self._types.same(x, y)
        return same_value(x, y, lambda var: self._right.get(var, var))


def _title(node: RelayExpr) -> str:
    if isinstance(node, Call):
        return f"Call of {node.op.name if isinstance(node.op, Op) else type(node.op).__name__}"
    return f"{type(node).__name__} {node.name}" if isinstance(node, Op) else type(node).__name__


def _typed(value: object) -> str:
    return f"{type(value).__name__} {_shown(value)}"


def _shown(value: object) -> str:
    if isinstance(value, NDArray):
        text = f"{value.dtype}{list(value.shape)} {value.numpy().ravel()[:6].tolist()}"
    else:
        text = repr(dict(value)) if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _place_text(place: ExprPath | None) -> str:
    steps: list[str] = []
    while place is not None and len(steps) < 12:
        place, step = place
        steps.append(step)
    return ("… ." if place is not None else "") + ".".join(reversed(steps))


def _module_difference(a: IRModule, b: IRModule, map_free_vars: bool) -> str | None:
    left, right = ({var.name_hint: f for var, f in mod.functions.items()} for mod in (a, b))
    if left.keys() != right.keys():
        only = [f"@{n} is on the left alone" for n in left if n not in right]
        only += [f"@{n} is on the right alone" for n in right if n not in left]
        return "; ".join(only)
    if not same_value(a.attrs, b.attrs):
        return f"attrs is {_shown(a.attrs)} on the left, {_shown(b.attrs)} on the right"
    why = _types_difference(a, b)
    if why is not None:
        return why
    for name, func in left.items():
        why = _Comparison(map_free_vars).difference(func, right[name], f"@{name}")
        if why is not None:
            return why
    return None


def _types_difference(a: IRModule, b: IRModule) -> str | None:
    left, right = ({h.name_hint: data for h, data in mod.type_definitions.items()} for mod in (a, b))
    for name in (*left, *right):
        if name not in left or name not in right:
            return f"the type {name} is on the {'left' if name in left else 'right'} alone"
        if not TypePairs(False, same_value).same(left[name], right[name]):
            return f"the definitions of the type {name} differ"
    return None


@paused_collector()
def _difference(lhs: object, rhs: object, map_free_vars: bool) -> str | None:
    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        return _module_difference(lhs, rhs, map_free_vars)
    if isinstance(lhs, RelayExpr) and isinstance(rhs, RelayExpr):
        return _Comparison(map_free_vars).difference(lhs, rhs, "the root")
    if isinstance(lhs, Type) and isinstance(rhs, Type):
        same = _Comparison(map_free_vars).same_held(lhs, rhs)
        return None if same else f"{_typed(lhs)} on the left, {_typed(rhs)} on the right"
    if any(isinstance(x, (IRModule, RelayExpr)) for x in (lhs, rhs)) or not same_value(lhs, rhs):
        return f"{_typed(lhs)} on the left, {_typed(rhs)} on the right"
    return None


@register_func("relay.ir.structural_equal")
def structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> bool:
    """True when two expressions, modules, types, attributes or arrays are the same structure.

    Source: ``tvm.ir.structural_equal``.
    """
    return _difference(lhs, rhs, map_free_vars) is None


def assert_structural_equal(lhs: object, rhs: object, map_free_vars: bool = False) -> None:
    """Raises StructuralMismatch (a ValueError) that says where *lhs* and *rhs* differ, and shows small ones.

    Source: ``tvm.ir.assert_structural_equal``.
    """
    why = _difference(lhs, rhs, map_free_vars)
    if why is not None:
        raise StructuralMismatch(f"not structurally equal {why}{_small_text('left', lhs)}{_small_text('right', rhs)}")


def _small_text(side: str, value: object) -> str:
    from byoc.relay.text.printer import astext

    if not isinstance(value, (IRModule, RelayExpr)):
        return ""
    lines = astext(value, show_meta_data=False).splitlines()[1:]
    return f"\n--- {side} ---\n" + "\n".join(lines) if len(lines) <= 60 else ""


# hash --------------------------------------------------------------------------------------------------------------


class _Hasher:
    """Feeds one line for each graph node to a digest; a line names sub-expressions by their number."""

    def __init__(self, map_free_vars: bool):
        self._map_free_vars = map_free_vars
        self._digest = hashlib.blake2b(digest_size=8)
        self._arrays: dict[int, object] = {}
        self._types: dict[Type, str] = {}

    def add(self, root: RelayExpr) -> None:
        """Add all nodes under *root*, in post-order."""
        bound = self._bind(root)
        names: dict[RelayExpr, object] = {}
        count = 0
        for node in post_order(root):
            content = [(name, self._key(value, names)) for name, value in held(node)]
            if isinstance(node, Var) and node not in bound and not self._map_free_vars:
                content.append(("free", node.name_hint))
            row = (type(node).__name__, content, [names[c] for c in children(node)])
            if is_graph_node(node):
                names[node] = count
                count += 1
                self._feed(row)
            else:
                names[node] = self._short(row)
        self._feed(names[root])

    def _bind(self, root: RelayExpr) -> set[Var]:
        """All bound variables; type parameters are numbered, and free type variables where they are mapped."""
        bound: set[Var] = set()
        for node in post_order(root):
            bound.update(binders(node))
            if isinstance(node, Function) and node.type_params:
                self._types = bound_names(node.type_params, self._types)
        if self._map_free_vars:
            for node in post_order(root):
                for _, value in held(node):
                    self._bind_free_types(value)
        return bound

    def _bind_free_types(self, value: object) -> None:
        types = value if isinstance(value, tuple) else (value,)
        for ty in types:
            if isinstance(ty, Type):
                self._types = bound_names([v for v in free_types(ty) if v not in self._types], self._types)

    def _key(self, value: object, names: Mapping[RelayExpr, object] = MappingProxyType({})) -> object:
        if isinstance(value, Type):
            return type_key(value, self._types, value_key)
        if isinstance(value, tuple) and value and isinstance(value[0], Type):
            return tuple(self._key(v) for v in value)
        if not isinstance(value, NDArray):
            return value_key(value, lambda var: names.get(var, var.name_hint))
        if id(value) not in self._arrays:
            self._arrays[id(value)] = array_key(value)
        return self._arrays[id(value)]

    def _short(self, row: object) -> str:
        return hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _feed(self, row: object) -> None:
        self._digest.update(repr(row).encode("utf-8", "surrogatepass") + b"\n")

    def add_value(self, value: object) -> None:
        """Add what is no expression."""
        if isinstance(value, Type) and self._map_free_vars:
            self._bind_free_types(value)
        self._feed(self._key(value))

    def result(self) -> int:
        return int.from_bytes(self._digest.digest(), "big")


@paused_collector()
@register_func("relay.ir.structural_hash")
def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """A 64-bit number that is the same for structurally equal things, in every process.

    Source: ``tvm.ir.structural_hash``.
    """
    hasher = _Hasher(map_free_vars)
    if isinstance(node, IRModule):
        for name, func in sorted((var.name_hint, func) for var, func in node.functions.items()):
            hasher.add_value(name)
            hasher.add(func)
        for name, data in sorted((header.name_hint, data) for header, data in node.type_definitions.items()):
            hasher.add_value(name)
            hasher.add_value(data)
        hasher.add_value(node.attrs)
    elif isinstance(node, RelayExpr):
        hasher.add(node)
    else:
        hasher.add_value(node)
    return hasher.result()
