"""Functors over types: every class has its method, visits reach everything, mutators make types again."""

from __future__ import annotations

import pytest

from byoc import relay
from byoc.errors import InternalError
from byoc.ir.types import Type
from byoc.relay.type_functor import _METHODS

A = relay.TypeVar("a")
HEAD = relay.GlobalTypeVar("head")
TENSOR = relay.TensorType([2])
DATA = relay.TypeData(HEAD, [A], [relay.Constructor("C", [A, TENSOR], HEAD)])
TYPES: list[Type] = [
    A,
    relay.IncompleteType(),
    TENSOR,
    relay.FuncType([A], TENSOR, [A], [relay.TypeRelation(None, [A, TENSOR], 1)]),
    relay.TupleType([TENSOR, relay.TupleType([A])]),
    relay.TypeRelation(None, [A, TENSOR], 1),
    relay.RefType(A),
    HEAD,
    relay.TypeCall(HEAD, [A]),
    DATA,
]


@pytest.mark.parametrize("ty", TYPES, ids=lambda ty: type(ty).__name__)
def test_each_class_of_type_has_its_own_method(ty: Type) -> None:
    class Named(relay.TypeFunctor):
        pass

    setattr(Named, _METHODS[type(ty)], lambda self, given: given)
    assert Named().visit(ty) is ty
    with pytest.raises(NotImplementedError, match=type(ty).__name__):
        relay.TypeFunctor().visit(ty)
    relay.TypeVisitor().visit(ty)
    again = relay.TypeMutator().visit(ty)
    assert relay.structural_equal(again, ty)


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(InternalError, match="no method for a int"):
        relay.TypeFunctor().visit(3)


def test_a_visitor_reaches_what_is_inside() -> None:
    class Tensors(relay.TypeVisitor):
        def __init__(self) -> None:
            self.found: list[Type] = []

        def visit_tensor_type(self, tt: relay.TensorType) -> None:
            self.found.append(tt)

    for ty, count in zip(TYPES, [0, 0, 1, 2, 1, 1, 0, 0, 0, 1], strict=True):
        visitor = Tensors()
        visitor.visit(ty)
        assert len(visitor.found) == count, ty


def test_a_mutator_replaces_what_is_inside() -> None:
    class Wider(relay.TypeMutator):
        def visit_tensor_type(self, tt: relay.TensorType) -> Type:
            return relay.TensorType(tt.shape, "float64")

    wide = relay.TensorType([2], "float64")
    assert Wider().visit(relay.RefType(relay.TupleType([TENSOR, A]))) == relay.RefType(relay.TupleType([wide, A]))
    assert Wider().visit(relay.FuncType([A], TENSOR, [A])) == relay.FuncType([A], wide, [A])
    assert Wider().visit(DATA).constructors[0].inputs == (A, wide)
