"""What the nodes of a graph hold beside their sub-expressions, as structural equality and hash see it.

Constants count by their bytes, attributes by their values, types by their structure with type variables as one.
Invariant: what is the same has the same key, in every process. Source: ``src/node/structural_equal.cc`` of TVM.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

from byoc.ir.attrs import AttrObject, Attrs
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import Type
from byoc.relay.adt import Match, PatternConstructor, PatternTuple, pattern_children, patterns_of
from byoc.relay.expr import (
    VIRTUAL_DEVICE,
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
    VarId,
)
from byoc.relay.structure.types import type_key
from byoc.relay.text.attributes import field_types, matched
from byoc.relay.text.spelling import value_text
from byoc.relay.traverse import binders
from byoc.runtime.core.ndarray import NDArray

# values that are no expressions ------------------------------------------------------------------------------------


# numbers closer than 1e-9 are the same to Relay, so that an attribute that went through a float32 is still itself
_FLOAT_DIGITS = 9


def value_key(value: object, name_of: Callable[[Var], object] | None = None) -> object:
    """What makes *value* equal to another: hashable, the same in every process; a bool counts as an int.

    Variables, and identities of variables, in lists and maps count as what *name_of* says of them, else by their text.
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return value_text(round(value, _FLOAT_DIGITS))
    if isinstance(value, NDArray):
        return array_key(value)
    if isinstance(value, AttrObject):
        return (type(value).__name__, str(value))
    if isinstance(value, Attrs):
        types = field_types(type(value))
        fields = tuple((n, value_key(matched(v, types[n]))) for n, v in value.items())
        return (type(value).__qualname__, fields)
    if isinstance(value, Mapping):
        pairs = ((_map_key(k, name_of), value_key(v, name_of)) for k, v in value.items())
        return ("map", tuple(sorted(pairs, key=repr)))
    if isinstance(value, (list, tuple)):
        return ("list", tuple(value_key(v, name_of) for v in value))
    if name_of is not None and isinstance(value, (Var, VarId)):
        return ("variable", name_of(_variable(value)))
    if isinstance(value, Type):
        return type_key(value, {}, value_key)
    return value_text(value)


def _map_key(key: object, name_of: Callable[[Var], object] | None) -> object:
    return value_key(key, name_of) if isinstance(key, (Var, VarId)) and name_of is not None else str(key)


def _variable(value: Var | VarId) -> Var:
    return value if isinstance(value, Var) else value.variable


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


def same_value(a: object, b: object, pair_of: Callable[[Var], RelayExpr] | None = None) -> bool:
    """True where two values that are no expressions are the same; *pair_of* a variable in *a* is the one in *b*."""
    if a is b:
        return True
    if isinstance(a, NDArray) and isinstance(b, NDArray):
        return _same_array(a, b)
    if pair_of is None:
        return value_key(a) == value_key(b)
    return value_key(a, lambda var: id(pair_of(var))) == value_key(b, id)


def _compared_attrs(func: Function) -> Mapping[str, object]:
    """The attributes of *func* but for the device of its result, which Relay does not compare."""
    if VIRTUAL_DEVICE not in func.attrs:
        return func.attrs
    return {name: value for name, value in func.attrs.items() if name != VIRTUAL_DEVICE}


# node class -> what it holds beside its sub-expressions, by name
_HELD: dict[type, Callable[..., Sequence[tuple[str, object]]]] = {
    Op: lambda e: (("op", e.name),),
    GlobalVar: lambda e: (("name_hint", e.name_hint),),
    Var: lambda e: (("type_annotation", e.type_annotation),),
    Constant: lambda e: (("data", e.data),),
    Call: lambda e: (
        (("op", e.op.name), ("attrs", e.attrs))
        if isinstance(e.op, Op)
        else (("attrs", e.attrs), ("type_args", e.type_args))
    ),
    Constructor: lambda e: (("constructor", f"{e.belong_to.name_hint}.{e.name_hint}"),),
    Match: lambda e: (("complete", e.complete), ("patterns", _pattern_shapes(e))),
    TupleGetItem: lambda e: (("index", e.index),),
    Function: lambda e: (("ret_type", e.ret_type), ("type_params", e.type_params), ("attrs", _compared_attrs(e))),
}
_BY_VALUE = (Constant, TupleGetItem, Op, GlobalVar, Constructor)


def _pattern_shapes(match: Match) -> list[list[str]]:
    """The patterns of *match* but for the variables that they bind, in the order of the text."""

    def shape(pattern: object) -> str:
        of = pattern.constructor.name_hint if isinstance(pattern, PatternConstructor) else ""
        fields = len(pattern_children(pattern)) if isinstance(pattern, (PatternConstructor, PatternTuple)) else 0
        return f"{type(pattern).__name__} {of} {fields}"

    return [[shape(p) for p in patterns_of(clause.lhs)] for clause in match.clauses]


def held(node: RelayExpr) -> Sequence[tuple[str, object]]:
    """What *node* holds beside its sub-expressions, by name."""
    rule = _HELD.get(type(node))
    return rule(node) if rule is not None else ()


def is_graph_node(node: RelayExpr) -> bool:
    """True for a node whose sharing is part of the structure."""
    return not isinstance(node, _BY_VALUE) and not (isinstance(node, Tuple) and not node.fields)


def _numbered(name: str, nodes: Sequence[object]) -> list[str]:
    return [f"{name}[{i}]" for i in range(len(nodes))]


# node class -> the names of its sub-expressions, in the order of children()
_STEPS: dict[type, Callable[..., list[str]]] = {
    Call: lambda e: _numbered("args", e.args) if isinstance(e.op, Op) else ["op", *_numbered("args", e.args)],
    Function: lambda e: [*_numbered("params", e.params), "body"],
    Tuple: lambda e: _numbered("fields", e.fields),
    TupleGetItem: lambda e: ["tuple_value"],
    Let: lambda e: ["variable", "value", "body"],
    If: lambda e: ["cond", "true_branch", "false_branch"],
    RefCreate: lambda e: ["value"],
    RefRead: lambda e: ["ref"],
    RefWrite: lambda e: ["ref", "value"],
    Match: lambda e: ["data", *_numbered("bound", binders(e)), *_numbered("clauses", e.clauses)],
}


def steps(node: RelayExpr) -> list[str]:
    """The names of the sub-expressions of *node*, in the order of ``traverse.children``."""
    rule = _STEPS.get(type(node))
    return rule(node) if rule is not None else []
