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
from collections.abc import Callable, Mapping, Sequence

from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.collector import paused_collector
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import Type
from byoc.relay.analysis.variables import bound_vars
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
)
from byoc.relay.text.attributes import field_types, matched
from byoc.relay.text.printer import astext
from byoc.relay.text.spelling import value_text
from byoc.relay.traverse import children, post_order
from byoc.runtime.ndarray import NDArray

# where in the graph: (the place above, the step down)
Place = tuple["Place | None", str]


class StructuralMismatch(UserError, AssertionError):
    """Two things that should be structurally equal and are not: the message says where they differ and how."""


# values that are no expressions ------------------------------------------------------------------------------------


def _value_key(value: object) -> object:
    """What makes *value* equal to another: hashable, the same in every process; a bool counts as an int."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, NDArray):
        return array_key(value)
    if isinstance(value, Attrs):
        types = field_types(type(value))
        fields = tuple((n, _value_key(matched(v, types[n]))) for n, v in value.items())
        return (type(value).__qualname__, fields)
    if isinstance(value, Mapping):
        return ("map", tuple(sorted((str(k), _value_key(v)) for k, v in value.items())))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(map(_value_key, value)))
    if isinstance(value, Type):
        return repr(value)
    return value_text(value)


def array_key(array: NDArray) -> object:
    """Dtype, shape and a digest of the bytes; the values themselves for strings."""
    data = array.numpy()
    if array.dtype == "string":
        content = repr(data.ravel().tolist())
    else:
        content = hashlib.blake2b(_little_endian(array), digest_size=16).hexdigest()
    return ("array", array.dtype, array.shape, content)


def _little_endian(array: NDArray) -> bytes:
    data = array.numpy()
    return data.astype(data.dtype.newbyteorder("<"), copy=False).tobytes()


def _same_array(a: NDArray, b: NDArray) -> bool:
    if a is b:
        return True
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return array_key(a) == array_key(b) if a.dtype == "string" else _little_endian(a) == _little_endian(b)


def _same_value(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, NDArray) and isinstance(b, NDArray):
        return _same_array(a, b)
    return _value_key(a) == _value_key(b)


# node class -> what it holds beside its sub-expressions, by name
_Held = Callable[[RelayExpr], Sequence[tuple[str, object]]]
_HELD: dict[type, _Held] = {
    Op: lambda e: (("op", e.name),),
    GlobalVar: lambda e: (("name_hint", e.name_hint),),
    Var: lambda e: (("type_annotation", e.type_annotation),),
    Constant: lambda e: (("data", e.data),),
    Call: lambda e: (
        (("op", e.op.name), ("attrs", e.attrs))
        if isinstance(e.op, Op)
        else (("attrs", e.attrs), ("type_args", e.type_args))
    ),
    TupleGetItem: lambda e: (("index", e.index),),
    Function: lambda e: (("ret_type", e.ret_type), ("type_params", e.type_params), ("attrs", e.attrs)),
}
_BY_VALUE = (Constant, TupleGetItem, Op, GlobalVar)


def _held(node: RelayExpr) -> Sequence[tuple[str, object]]:
    rule = _HELD.get(type(node))
    return rule(node) if rule is not None else ()


def _is_graph_node(node: RelayExpr) -> bool:
    return not isinstance(node, _BY_VALUE) and not (isinstance(node, Tuple) and not node.fields)


def _numbered(name: str, nodes: Sequence[object]) -> list[str]:
    return [f"{name}[{i}]" for i in range(len(nodes))]


# node class -> the names of its sub-expressions, in the order of children()
_STEPS: dict[type, Callable[[RelayExpr], list[str]]] = {
    Call: lambda e: _numbered("args", e.args) if isinstance(e.op, Op) else ["op", *_numbered("args", e.args)],
    Function: lambda e: [*_numbered("params", e.params), "body"],
    Tuple: lambda e: _numbered("fields", e.fields),
    TupleGetItem: lambda e: ["tuple_value"],
    Let: lambda e: ["variable", "value", "body"],
    If: lambda e: ["cond", "true_branch", "false_branch"],
    RefCreate: lambda e: ["value"],
    RefRead: lambda e: ["ref"],
    RefWrite: lambda e: ["ref", "value"],
}


def _steps(node: RelayExpr) -> list[str]:
    rule = _STEPS.get(type(node))
    return rule(node) if rule is not None else []


# equality ----------------------------------------------------------------------------------------------------------


class _Comparison:
    """One comparison of two expressions: who is paired with whom, and the first difference."""

    def __init__(self, map_free_vars: bool):
        self._map_free_vars = map_free_vars
        self._right: dict[RelayExpr, RelayExpr] = {}
        self._left: dict[RelayExpr, RelayExpr] = {}
        self._by_value: set[tuple[RelayExpr, RelayExpr]] = set()

    def difference(self, a: RelayExpr, b: RelayExpr, root: str) -> str | None:
        """One sentence that says where *a* and *b* first differ, or None."""
        stack: list[tuple[RelayExpr, RelayExpr, Place]] = [(a, b, (None, root))]
        while stack:
            a, b, place = stack.pop()
            why = self._visit(a, b, place, stack)
            if why is not None:
                return f"at {_place_text(place)}: {why}"
        return None

    def _visit(self, a: RelayExpr, b: RelayExpr, place: Place, stack: list[tuple[RelayExpr, RelayExpr, Place]]) -> (
        str | None
    ):
        if type(a) is not type(b):
            return f"a {_title(a)} on the left, a {_title(b)} on the right"
        if _is_graph_node(a):
            if a in self._right or b in self._left:
                if self._right.get(a) is b:
                    return None
                return f"this {_title(a)} is shared on one side with another use, and not on the other"
            if isinstance(a, Var) and a is not b and not self._map_free_vars:
                return f"the free variables %{a.name_hint} and %{b.name_hint} are not the same object"
            self._pair(a, b)
        elif (a, b) in self._by_value:
            return None
        else:
            self._by_value.add((a, b))
        return self._enter(a, b, place, stack)

    def _pair(self, a: RelayExpr, b: RelayExpr) -> None:
        self._right[a], self._left[b] = b, a

    def _enter(self, a: RelayExpr, b: RelayExpr, place: Place, stack: list[tuple[RelayExpr, RelayExpr, Place]]) -> (
        str | None
    ):
        why = _held_difference(a, b)
        left, right = children(a), children(b)
        if why is not None or len(left) != len(right):
            return why or f"{len(left)} sub-expressions on the left, {len(right)} on the right"
        binders = len(a.params) if isinstance(a, Function) else int(isinstance(a, Let))
        if isinstance(a, Function) and binders != len(b.params):
            return f"{binders} parameters on the left, {len(b.params)} on the right"
        for var_a, var_b in zip(left[:binders], right[:binders], strict=True):
            if var_a in self._right or var_b in self._left:
                if self._right.get(var_a) is not var_b:
                    return f"the variable %{var_a.name_hint} is bound more than once on one side"
            self._pair(var_a, var_b)
            why = _held_difference(var_a, var_b)
            if why is not None:
                return f"the variables %{var_a.name_hint} and %{var_b.name_hint}: {why}"
        rows = zip(left, right, _steps(a), strict=True)
        stack.extend(reversed([(x, y, (place, step)) for x, y, step in list(rows)[binders:]]))
        return None


def _held_difference(a: RelayExpr, b: RelayExpr) -> str | None:
    held_a, held_b = _held(a), _held(b)
    if [name for name, _ in held_a] != [name for name, _ in held_b]:
        return f"a call of {_title(a.op)} on the left, of {_title(b.op)} on the right"
    for (name, x), (_, y) in zip(held_a, held_b, strict=True):
        if not _same_value(x, y):
            return f"{name} is {_shown(x)} on the left, {_shown(y)} on the right"
    return None


def _title(node: RelayExpr) -> str:
    if isinstance(node, Call):
        return f"Call of {node.op.name if isinstance(node.op, Op) else type(node.op).__name__}"
    return f"{type(node).__name__} {node.name}" if isinstance(node, Op) else type(node).__name__


def _shown(value: object) -> str:
    if isinstance(value, NDArray):
        text = f"{value.dtype}{list(value.shape)} {value.numpy().ravel()[:6].tolist()}"
    else:
        text = repr(dict(value)) if isinstance(value, Mapping) else repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _place_text(place: Place | None) -> str:
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
    if not _same_value(a.attrs, b.attrs):
        return f"attrs is {_shown(a.attrs)} on the left, {_shown(b.attrs)} on the right"
    for name, func in left.items():
        why = _Comparison(map_free_vars).difference(func, right[name], f"@{name}")
        if why is not None:
            return why
    return None


@paused_collector()
def _difference(lhs: object, rhs: object, map_free_vars: bool) -> str | None:
    if isinstance(lhs, IRModule) and isinstance(rhs, IRModule):
        return _module_difference(lhs, rhs, map_free_vars)
    if isinstance(lhs, RelayExpr) and isinstance(rhs, RelayExpr):
        return _Comparison(map_free_vars).difference(lhs, rhs, "the root")
    if any(isinstance(x, (IRModule, RelayExpr)) for x in (lhs, rhs)) or not _same_value(lhs, rhs):
        return f"{type(lhs).__name__} {_shown(lhs)} on the left, {type(rhs).__name__} {_shown(rhs)} on the right"
    return None


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

    def add(self, root: RelayExpr) -> None:
        """Add all nodes under *root*, in post-order."""
        bound = set(bound_vars(root))
        names: dict[RelayExpr, object] = {}
        count = 0
        for node in post_order(root):
            held = [(name, self._key(value)) for name, value in _held(node)]
            if isinstance(node, Var) and node not in bound and not self._map_free_vars:
                held.append(("free", node.name_hint))
            row = (type(node).__name__, held, [names[c] for c in children(node)])
            if _is_graph_node(node):
                names[node] = count
                count += 1
                self._feed(row)
            else:
                names[node] = self._short(row)
        self._feed(names[root])

    def _key(self, value: object) -> object:
        if not isinstance(value, NDArray):
            return _value_key(value)
        if id(value) not in self._arrays:
            self._arrays[id(value)] = array_key(value)
        return self._arrays[id(value)]

    def _short(self, row: object) -> str:
        return hashlib.blake2b(repr(row).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()

    def _feed(self, row: object) -> None:
        self._digest.update(repr(row).encode("utf-8", "surrogatepass") + b"\n")

    def add_value(self, value: object) -> None:
        """Add what is no expression."""
        self._feed(_value_key(value))

    def result(self) -> int:
        return int.from_bytes(self._digest.digest(), "big")


@paused_collector()
def structural_hash(node: object, map_free_vars: bool = False) -> int:
    """A 64-bit number that is the same for structurally equal things, in every process.

    Source: ``tvm.ir.structural_hash``.
    """
    hasher = _Hasher(map_free_vars)
    if isinstance(node, IRModule):
        for name, func in sorted((var.name_hint, func) for var, func in node.functions.items()):
            hasher.add_value(name)
            hasher.add(func)
        hasher.add_value(node.attrs)
    elif isinstance(node, RelayExpr):
        hasher.add(node)
    else:
        hasher.add_value(node)
    return hasher.result()
