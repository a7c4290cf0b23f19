"""Algebraic data, match, constructors and closures as values in the reference interpreter, against Python."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.relay.analysis import infer_module
from byoc.relay.interpreter import ConstructorValue, RefValue, evaluate, evaluate_value, result_of, value_of
from byoc.runtime.core.container import ADT, tuple_object

INT = relay.TensorType((), "int32")


class Lists:
    """A module with the type of lists over any element."""

    def __init__(self):
        self.mod = relay.IRModule()
        self.type, element = relay.GlobalTypeVar("List"), relay.TypeVar("A")
        self.cons = relay.Constructor("Cons", [element, self.type(element)], self.type)
        self.nil = relay.Constructor("Nil", [], self.type)
        self.mod[self.type] = relay.TypeData(self.type, [element], [self.cons, self.nil])

    def of(self, *items):
        result = self.nil()
        for item in reversed(items):
            result = self.cons(relay.const(item), result)
        return result

    def cases(self, data, empty, filled):
        """A match on a list; *filled* gets its head and its tail."""
        head, tail = relay.var("head"), relay.var("tail")
        cons = relay.PatternConstructor(self.cons, [relay.PatternVar(head), relay.PatternVar(tail)])
        clauses = [relay.Clause(relay.PatternConstructor(self.nil), empty), relay.Clause(cons, filled(head, tail))]
        return relay.Match(data, clauses)

    def run(self, body, *inputs, params=()):
        self.mod["main"] = relay.Function(list(params), body)
        return evaluate(infer_module(self.mod), inputs)


@pytest.fixture
def lists():
    return Lists()


def to_list(value):
    items = []
    while value.constructor.name_hint == "Cons":
        items.append(int(value.fields[0]))
        value = value.fields[1]
    return items


def test_a_constructor_makes_a_value_with_its_tag_and_fields(lists):
    value = lists.run(lists.of(1, 2, 3))
    assert isinstance(value, ConstructorValue)
    assert (value.tag, value.constructor) == (lists.cons.tag, lists.cons) and lists.cons.tag != lists.nil.tag
    assert to_list(value) == [1, 2, 3]


def test_a_match_takes_the_first_clause_that_fits(lists):
    x, y = relay.var("x"), relay.var("y")
    second = relay.PatternConstructor(lists.cons, [relay.PatternVar(y), relay.PatternWildcard()])
    two = relay.PatternConstructor(lists.cons, [relay.PatternVar(x), second])
    clauses = [relay.Clause(two, relay.add(x, y)), relay.Clause(relay.PatternWildcard(), relay.const(-1))]
    assert lists.run(relay.Match(lists.of(4, 5, 6), clauses)) == 9
    assert lists.run(relay.Match(lists.of(4), clauses)) == -1


def test_a_tuple_pattern_takes_a_tuple_apart(lists):
    x, y = relay.var("x"), relay.var("y")
    pattern = relay.PatternTuple([relay.PatternVar(x), relay.PatternTuple([relay.PatternVar(y)])])
    data = relay.Tuple([relay.const(2), relay.Tuple([relay.const(5)])])
    assert lists.run(relay.Match(data, [relay.Clause(pattern, relay.subtract(x, y))])) == -3


def test_a_value_that_no_clause_fits_is_refused(lists):
    clauses = [relay.Clause(relay.PatternConstructor(lists.nil), relay.const(0))]
    with pytest.raises(UserError, match="no clause of a match fits ConstructorValue.Cons"):
        lists.run(relay.Match(lists.of(1), clauses, complete=False))


def test_a_constructor_is_a_function_like_any_other(lists):
    f, x, y = relay.var("f"), relay.var("x", INT), relay.var("y", lists.type(INT))
    make = relay.Function([f], relay.Call(f, [relay.const(7), lists.nil()]))
    assert to_list(evaluate(relay.Call(make, [lists.cons]))) == [7]  # no type is needed to run
    wrapped = relay.Function([x, y], lists.cons(x, y))
    assert to_list(lists.run(relay.Call(wrapped, [relay.const(1), lists.nil()]))) == [1]


def test_a_generic_recursive_function_runs_on_10000_cells(lists):
    a, b = relay.TypeVar("a"), relay.TypeVar("b")
    fmap = relay.GlobalVar("map")
    f, xs = relay.var("f", relay.FuncType([a], b)), relay.var("xs", lists.type(a))
    body = lists.cases(xs, lists.nil(), lambda h, t: lists.cons(relay.Call(f, [h]), relay.Call(fmap, [f, t])))
    lists.mod[fmap] = relay.Function([f, xs], body, lists.type(b), [a, b])
    upto, n, rest = relay.GlobalVar("upto"), relay.var("n", INT), relay.var("rest", lists.type(INT))
    again = relay.Call(upto, [relay.subtract(n, relay.const(1)), lists.cons(n, rest)])
    lists.mod[upto] = relay.Function([n, rest], relay.If(relay.less(n, relay.const(0)), rest, again), lists.type(INT))
    x, count = relay.var("x", INT), relay.var("count", INT)
    double = relay.Function([x], relay.multiply(x, relay.const(2)))
    made = lists.run(
        relay.Call(fmap, [double, relay.Call(upto, [count, lists.nil()])]), np.int32(10_000), params=[count]
    )
    assert to_list(made) == [2 * k for k in range(10_001)]
    outer = result_of(made)
    assert outer.fields[1].fields[0].numpy() == 2


def test_closures_are_values_in_tuples_and_data(lists):
    x = relay.var("x", INT)
    add = [relay.Function([x], relay.add(x, relay.const(k))) for k in (1, 10)]
    functions = lists.cons(add[0], lists.cons(add[1], lists.nil()))
    called = lists.cases(functions, relay.const(0), lambda h, t: relay.Call(h, [relay.const(5)]))
    assert lists.run(called) == 6


def test_values_given_by_a_caller_are_taken_and_given_back_as_containers(lists):
    xs, cell = relay.var("xs", lists.type(INT)), relay.var("cell", relay.RefType(INT))
    nil = ConstructorValue(lists.nil.tag, [], lists.nil)
    given = ConstructorValue(lists.cons.tag, [np.int32(3), nil], lists.cons)
    assert lists.run(lists.cases(xs, relay.const(-1), lambda h, t: h), given, params=[xs]) == 3
    by_tag = ADT(lists.cons.tag, [np.int32(4), ADT(lists.nil.tag)])
    assert lists.run(lists.cases(xs, relay.const(-1), lambda h, t: h), by_tag, params=[xs]) == 4
    assert lists.run(relay.RefRead(cell), RefValue(np.int32(8)), params=[cell]) == 8
    pair = result_of([np.asarray(1), [np.asarray(2)]])
    assert isinstance(pair, ADT) and pair.tag == 0 and pair[1][0].numpy() == 2
    assert value_of(tuple_object([1, (2, 3)]))[1][1] == 3


def test_a_reference_is_a_value_of_its_own_but_no_data():
    cell = relay.RefCreate(relay.const(3))
    assert isinstance(evaluate_value(cell), RefValue) and evaluate_value(cell).value.numpy() == 3
    with pytest.raises(UserError, match="the result holds a reference"):
        evaluate(relay.Tuple([cell]))


def test_data_shared_a_million_times_is_converted_once():
    value = [np.float32(1)]
    for _ in range(64):
        value = [value, value]
    converted = result_of(value)
    assert converted[0] is converted[1]
