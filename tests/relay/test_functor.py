"""Visitors, mutators and bind: dispatch, memory, spans, depth."""

from __future__ import annotations

import sys
import threading
from typing import ClassVar

import numpy as np
import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.ir.op import get_op
from byoc.ir.passes.transform import PassContext


def chain(length: int) -> relay.Function:
    x = relay.var("x", shape=(2,))
    e: relay.Expr = x
    for _ in range(length):
        e = relay.exp(e)
    return relay.Function([x], e)


def every_node() -> relay.Function:
    x, r = relay.var("x", shape=(2,)), relay.var("r")
    pair = relay.Tuple([x, relay.const(1.0)])
    write = relay.RefWrite(r, relay.TupleGetItem(pair, 0))
    branch = relay.If(relay.const(True), relay.RefRead(r), relay.Call(relay.GlobalVar("g"), [relay.exp(x), write]))
    return relay.Function([x], relay.Let(r, relay.RefCreate(x), branch))


class Counting(relay.ExprVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def visit_call(self, call: relay.Call) -> None:
        self.calls += 1
        super().visit_call(call)


class ExpToLog(relay.ExprMutator):
    def visit_call(self, call: relay.Call) -> relay.Expr:
        new = super().visit_call(call)
        return relay.log(new.args[0]) if new.op is get_op("exp") else new


def test_a_visitor_meets_every_class_of_node_once() -> None:
    class Names(relay.ExprVisitor):
        seen: ClassVar[list[str]] = []

        def visit(self, expr: relay.Expr) -> None:
            if expr not in self.memo_map:
                self.seen.append(type(expr).__name__)
            super().visit(expr)

    visitor = Names()
    visitor.visit(every_node())
    assert sorted(visitor.seen) == sorted(
        [
            "Function",
            "Var",
            "Let",
            "Var",
            "RefCreate",
            "If",
            "Constant",
            "RefRead",
            "Call",
            "GlobalVar",
            "Call",
            "Op",
            "RefWrite",
            "TupleGetItem",
            "Tuple",
            "Constant",
        ]
    )


def test_a_shared_node_is_visited_once() -> None:
    e = relay.exp(relay.var("x", shape=(2,)))
    for _ in range(60):
        e = relay.add(e, e)
    visitor = Counting()
    visitor.visit(e)
    assert visitor.calls == 61


def test_a_subclass_may_leave_children_out() -> None:
    class Stop(Counting):
        def visit_call(self, call: relay.Call) -> None:
            self.calls += 1
            if call.op is not get_op("log"):
                self.visit(call.args[0])

    visitor = Stop()
    visitor.visit(relay.exp(relay.log(relay.exp(relay.var("x", shape=(2,))))))
    assert visitor.calls == 2


def test_a_mutator_that_changes_nothing_gives_the_same_objects() -> None:
    f = every_node()
    assert relay.ExprMutator().visit(f) is f


def test_a_mutator_rebuilds_what_changed_and_keeps_sharing_and_spans() -> None:
    x = relay.var("x", shape=(2,))
    inner = relay.exp(x)
    outer = relay.add(inner, inner)
    outer.span = relay.Span.named("sum")
    kept = relay.negative(x)
    new = ExpToLog().visit(relay.Function([x], relay.Tuple([outer, kept]), attrs={"Primitive": 1}))
    assert new.params[0] is x and new.attrs["Primitive"] == 1
    total, same = new.body.fields
    assert same is kept
    assert total.span == relay.Span.named("sum")
    assert total.args[0] is total.args[1] and total.args[0].op is get_op("log")


def test_a_mutator_rebuilds_every_class_of_node() -> None:
    class NewVariables(relay.ExprMutator):
        def visit_var(self, var: relay.Var) -> relay.Var:
            return relay.Var(var.name_hint + "_new", var.type_annotation)

        def visit_constant(self, const: relay.Constant) -> relay.Constant:
            return relay.Constant(const.data)

    f = every_node()
    new = NewVariables().visit(f)
    assert new is not f
    relay.assert_structural_equal(new, f)
    assert [v.name_hint for v in relay.analysis.all_vars(new)] == ["x_new", "r_new"]


def test_a_functor_without_a_method_says_so() -> None:
    with pytest.raises(NotImplementedError, match="ExprFunctor does not say what to do with a Constant"):
        relay.ExprFunctor().visit(relay.const(1))


def test_any_depth_is_visited_and_the_frame_limit_comes_back() -> None:
    before = sys.getrecursionlimit()
    f = chain(10_000)
    visitor = Counting()
    visitor.visit(f)
    assert visitor.calls == 10_000
    new = ExpToLog().visit(f)
    relay.assert_structural_equal(ExpToLog().visit(new), new)
    assert Counting().visit(new) is None
    assert sys.getrecursionlimit() == before


def test_recursion_through_builtins_goes_as_deep() -> None:
    class ThroughMap(relay.ExprVisitor):
        calls = 0

        def visit_call(self, call: relay.Call) -> None:
            self.calls += 1
            tuple(map(self.visit, (arg for arg in call.args)))

    visitor = ThroughMap()
    visitor.visit(chain(10_000))
    assert visitor.calls == 10_000


def test_an_error_far_down_reaches_the_caller_and_the_depth_is_forgotten() -> None:
    class Failing(relay.ExprVisitor):
        def visit_var(self, var: relay.Var) -> None:
            raise LookupError(var.name_hint)

    before, threads = sys.getrecursionlimit(), threading.active_count()
    for _ in range(3):
        with pytest.raises(LookupError, match="x"):
            Failing().visit(relay.Function([], chain(3_000).body))
    assert sys.getrecursionlimit() == before and threading.active_count() == threads


def test_the_pass_context_reaches_the_deepest_visit() -> None:
    class Level(relay.ExprVisitor):
        level = 0

        def visit_var(self, var: relay.Var) -> None:
            self.level = PassContext.current().opt_level

    visitor = Level()
    with PassContext(opt_level=4):
        visitor.visit(chain(3_000).body)
    assert visitor.level == 4


def test_bind_replaces_parameters_by_constants_and_drops_them() -> None:
    x, w = relay.var("x", shape=(2,)), relay.var("w", shape=(2,))
    f = relay.Function([x, w], relay.add(x, w), attrs={"Composite": "c"})
    weights = np.array([1, 2], "float32")
    bound = relay.bind(f, {w: weights})
    assert bound.params == (x,) and bound.attrs["Composite"] == "c"
    assert bound.body.args[1].data.numpy().tolist() == [1, 2]
    expr = relay.bind(relay.exp(w), {w: relay.log(x)})
    relay.assert_structural_equal(expr, relay.exp(relay.log(x)))
    assert relay.bind(f, {}) is f


def test_bind_to_another_variable_keeps_a_parameter() -> None:
    x, y = relay.var("x", shape=(2,)), relay.var("y", shape=(2,))
    bound = relay.bind(relay.Function([x], relay.exp(x)), {x: y})
    assert bound.params == (y,) and bound.body.args == (y,)


def test_bind_refuses_what_is_no_variable_or_bound_further_in() -> None:
    x = relay.var("x", shape=(2,))
    with pytest.raises(UserError, match="bind replaces variables, got a Constant"):
        relay.bind(x, {relay.const(1): relay.const(2)})
    with pytest.raises(UserError, match="%x is bound inside the expression"):
        relay.bind(relay.Tuple([relay.Function([x], x)]), {x: relay.const(1.0)})
