"""Structural equality and hash agree on types, type parameters, matches and data types."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.ir.env_func import EnvFunc

A, B = relay.TypeVar("a"), relay.TypeVar("b")
SHAPE = relay.TypeVar("s", relay.TypeKind.Shape)
SMALL, LARGE = relay.TensorType((1, 2)), relay.TensorType((1, 2, 3))
KNOWN, OTHER = relay.IncompleteType(), relay.IncompleteType()
V, W = relay.Var("v", SMALL), relay.Var("w", SMALL)
HEAD = relay.GlobalTypeVar("List")
CONS = relay.Constructor("Cons", [A, HEAD(A)], HEAD)
NIL = relay.Constructor("Nil", [], HEAD)


def same(x: object, y: object, map_free_vars: bool = False) -> bool:
    """Whether two things are equal; equality is the same from both sides and agrees with the hash."""
    equal = relay.structural_equal(x, y, map_free_vars)
    assert equal == relay.structural_equal(y, x, map_free_vars)
    assert equal == (relay.structural_hash(x, map_free_vars) == relay.structural_hash(y, map_free_vars))
    return equal


def relation(name: str, args: list[relay.Type], inputs: int = 1) -> relay.TypeRelation:
    return relay.TypeRelation(EnvFunc.get(f"tvm.relay.type_relation.{name}"), args, inputs)


def func(params: list[relay.Var], body: relay.Expr, types: tuple[relay.TypeVar, ...] = ()) -> relay.Function:
    return relay.Function(params, body, types[0] if types else None, types)


def match(*clauses: tuple[relay.Pattern, relay.Expr], complete: bool = True) -> relay.Match:
    return relay.Match(NIL(), [relay.Clause(*clause) for clause in clauses], complete)


def cons(*inner: relay.Pattern) -> relay.Pattern:
    return relay.PatternConstructor(CONS, inner)


def bind(var: relay.Var) -> relay.Pattern:
    return relay.PatternVar(var)


def module(name: str, constructor: str, field: relay.Type | None = None) -> relay.IRModule:
    mod, header, param = relay.IRModule(), relay.GlobalTypeVar(name), relay.TypeVar("p")
    mod[header] = relay.TypeData(header, [param], [relay.Constructor(constructor, [field or param], header)])
    return mod


SAME = {
    "tensors": (relay.TensorType((1, 2)), SMALL),
    "unknown": (relay.RefType(KNOWN), relay.RefType(KNOWN)),
    "generic function types": (relay.FuncType([A], A, [A]), relay.FuncType([B], B, [B])),
    "relations": (relation("Broadcast", [A, A]), relation("Broadcast", [A, A])),
    "names of data types": (relay.TypeCall(HEAD, [A]), relay.TypeCall(relay.GlobalTypeVar("List"), [A])),
    "generic functions": (func([V], V, (A, B)), func([W], W, (B, A))),
    "lets": (relay.Let(V, relay.const(1), V), relay.Let(W, relay.const(1), W)),
    "matches": (match((cons(bind(V), bind(W)), V)), match((cons(bind(W), bind(V)), W))),
    "modules of types": (module("L", "C"), module("L", "C")),
}
DIFFERENT = {
    "shapes": (SMALL, LARGE),
    "unknown": (KNOWN, OTHER),
    "free type variables": (A, B),
    "kinds": (relay.FuncType([], SMALL, [A]), relay.FuncType([], SMALL, [SHAPE])),
    "what a bound variable is": (relay.FuncType([A, B], A, [A, B]), relay.FuncType([A, B], B, [A, B])),
    "relations": (relation("Broadcast", [A, A]), relation("Identity", [A, A])),
    "inputs of relations": (relation("Broadcast", [A, A, A]), relation("Broadcast", [A, A, A], 2)),
    "data types": (relay.TypeCall(HEAD, [A]), relay.TypeCall(relay.GlobalTypeVar("Tree"), [A])),
    "type parameters": (func([V], V, (A, B)), func([V], V, (A,))),
    "the parameter returned": (func([V, W], V), func([V, W], W)),
    "the variable of a let": (relay.Let(V, relay.const(1), V), relay.Let(V, relay.const(1), W)),
    "patterns": (match((cons(bind(V), bind(W)), V)), match((cons(bind(V), relay.PatternWildcard()), V))),
    "what a clause gives": (match((cons(bind(V), bind(W)), V)), match((cons(bind(V), bind(W)), W))),
    "order of clauses": (match((cons(), V), (bind(W), V)), match((bind(W), V), (cons(), V))),
    "completeness": (match((bind(V), V)), match((bind(V), V), complete=False)),
    "constructors": (CONS, NIL),
    "names of modules' types": (module("L", "C"), module("M", "C")),
    "names of constructors": (module("L", "C"), module("L", "D")),
    "fields of constructors": (module("L", "C"), module("L", "C", SMALL)),
}


@pytest.mark.parametrize("case", SAME)
def test_what_is_the_same_is_equal_with_one_hash(case: str) -> None:
    assert same(*SAME[case])


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_differs_is_not_equal_and_has_another_hash(case: str) -> None:
    assert not same(*DIFFERENT[case])


def test_free_type_variables_are_mapped_on_request() -> None:
    assert same(A, B, True) and not same(A, SHAPE, True)
    assert same(relay.TupleType([A, B, A]), relay.TupleType([B, A, B]), True)
    assert not same(relay.TupleType([A, B]), relay.TupleType([A, A]), True)
