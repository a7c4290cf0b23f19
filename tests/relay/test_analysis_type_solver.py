"""The type solver under Relay's global function: unification, and relations that are solved in both directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from byoc import relay
from byoc.annex.analysis.solver_functions import _test_type_solver
from byoc.errors import TypeInferenceError, UserError
from byoc.ir.env_func import EnvFunc

TENSOR, TALL, LONG = (relay.TensorType(shape) for shape in [(10, 20), (10, 1, 1), (10,)])


class Solver:
    def __init__(self) -> None:
        api = _test_type_solver()
        self.solve, self.unify, self.resolve = api("Solve"), api("Unify"), api("Resolve")
        self.add = api("AddConstraint")

    def result(self, name: str, args: Sequence[relay.Type], out: relay.Type | None = None) -> relay.Type:
        out = out or relay.IncompleteType()
        func = EnvFunc.get(f"tvm.relay.type_relation.{name}")
        self.add(relay.TypeRelation(func, [*args, out], len(args)))
        return out


def test_relations_follow_one_another() -> None:
    solver = Solver()
    first = solver.result("Broadcast", [TENSOR, relay.TensorType((10, 1))])
    last = solver.result("Broadcast", [solver.result("Identity", [first]), TALL])
    assert solver.solve()
    assert solver.resolve(first) == TENSOR
    assert solver.resolve(last) == relay.TensorType((10, 10, 20))


def test_an_input_is_found_from_a_result() -> None:
    solver, unknown = Solver(), relay.IncompleteType()
    joined = solver.result("Broadcast", [TENSOR, unknown])
    solver.result("Identity", [unknown], out=TALL)
    assert solver.solve() and solver.resolve(joined) == relay.TensorType((10, 10, 20))


def test_unknown_types_deep_inside_of_an_identity_are_found() -> None:
    solver, t = Solver(), [relay.IncompleteType() for _ in range(3)]
    known = relay.TupleType([relay.TupleType([TENSOR, TALL]), relay.TupleType([TALL, LONG])])
    unknown = relay.TupleType([relay.TupleType([t[0], t[1]]), relay.TupleType([t[1], t[2]])])
    solver.result("Identity", [known], out=unknown)
    assert solver.solve() and solver.resolve(unknown) == known


def test_what_is_not_known_is_not_solved() -> None:
    solver = Solver()
    solver.result("Broadcast", [relay.IncompleteType(), TENSOR])
    assert not solver.solve()
    with pytest.raises(UserError, match="has no method 'Guess'"):
        _test_type_solver()("Guess")


def pair(make: Callable[..., relay.Type]) -> tuple[relay.Type, relay.Type]:
    return make(relay.IncompleteType(), relay.IncompleteType()), make(TENSOR, TALL)


GTV = relay.GlobalTypeVar("gtv")


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: relay.TupleType([a, b]),
        lambda a, b: relay.FuncType([a, b], relay.TupleType([])),
        lambda a, b: relay.FuncType([b], a),
        lambda a, b: relay.TypeCall(GTV, [a, b]),
        lambda a, b: relay.RefType(relay.TupleType([a, relay.TupleType([b])])),
    ],
    ids=["tuple", "function", "result", "data", "reference"],
)
def test_unknown_types_inside_are_unified(make: Callable[..., relay.Type]) -> None:
    unknown, known = pair(make)
    assert Solver().unify(unknown, known) == known
    unknown, known = pair(make)
    assert Solver().unify(known, unknown) == known


def test_variables_of_both_sides_become_one() -> None:
    a, b = relay.IncompleteType(), relay.IncompleteType()
    solver = Solver()
    both = solver.unify(relay.TupleType([a, b]), relay.TupleType([b, a]))
    assert both in (relay.TupleType([a, a]), relay.TupleType([b, b]))
    solver.unify(a, TENSOR)
    assert solver.resolve(relay.TupleType([a, b])) == relay.TupleType([TENSOR, TENSOR])


def test_a_more_generic_function_is_used_at_the_types_of_the_other() -> None:
    a, b, c = (relay.TypeVar(n) for n in "abc")
    func = relay.FuncType
    narrow = func([a, a], a, [a])
    assert Solver().unify(func([a, b], c, [a, b, c]), narrow) == narrow
    assert Solver().unify(func([a], a, [a]), func([b], c, [b, c])) == func([a], a, [a])
    unit = relay.TupleType([])
    assert Solver().unify(func([a], b, [a, b]), func([unit], unit)) == func([unit], unit)
    nested = func([func([a], a, [a])], b, [b])
    other = func([func([c], c, [c])], a, [a])
    assert Solver().unify(nested, other) == nested


A = relay.TypeVar("a")
APART = {
    "tuples": (relay.TupleType([TENSOR, TALL]), relay.TupleType([TENSOR])),
    "shapes": (TENSOR, TALL),
    "dtypes": (TENSOR, relay.TensorType((10, 20), "int8")),
    "names": (GTV, relay.GlobalTypeVar("other")),
    "heads": (relay.TypeCall(GTV, []), relay.TypeCall(relay.GlobalTypeVar("other"), [])),
    "arguments": (relay.TypeCall(GTV, [TENSOR]), relay.TypeCall(GTV, [TALL])),
    "functions": (relay.FuncType([A], A, [A]), relay.FuncType([TENSOR], TALL)),
}


@pytest.mark.parametrize("case", APART)
def test_types_that_differ_are_refused(case: str) -> None:
    with pytest.raises(TypeInferenceError):
        Solver().unify(*APART[case])


def test_a_type_that_would_contain_itself_is_refused() -> None:
    unknown = relay.IncompleteType()
    with pytest.raises(TypeInferenceError, match="would contain itself"):
        Solver().unify(unknown, relay.TupleType([unknown, unknown]))
