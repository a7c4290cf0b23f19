"""The scope builder and the loops that are made with it."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.errors import UserError
from byoc.relay.interpreter import evaluate
from byoc.relay.loops import foreach, while_loop

ONE = relay.const(1, "int32")


def test_bindings_become_lets_around_the_result() -> None:
    x = relay.var("x", "int32")
    builder = relay.ScopeBuilder()
    a = builder.let("a", relay.add(x, ONE))
    b = builder.let(("b", relay.TensorType((), "int32")), relay.multiply(a, a))
    c = builder.let(relay.Var("c"), b)
    builder.ret(c)
    expected = relay.parse_expr("fn (%x: int32) { let %a = %x + 1; let %b: int32 = %a * %a; let %c = %b; %c }")
    relay.assert_structural_equal(relay.Function([x], builder.get()), expected)


def test_branches_have_their_own_bindings() -> None:
    cond = relay.var("cond", "bool")
    builder = relay.ScopeBuilder()
    with builder.if_scope(cond):
        builder.ret(builder.let("t", ONE))
    with builder.else_scope():
        with builder.if_scope(cond):
            builder.ret(relay.const(2))
        with builder.else_scope():
            builder.ret(relay.const(3))
    expected = relay.parse_expr("fn (%c: bool) { if (%c) { let %t = 1; %t } else { if (%c) { 2 } else { 3 } } }")
    relay.assert_structural_equal(relay.Function([cond], builder.get()), expected)


def test_scopes_that_do_not_fit_are_refused() -> None:
    builder = relay.ScopeBuilder()
    with pytest.raises(RuntimeError, match="ret is not called"):
        builder.get()
    with pytest.raises(RuntimeError, match="must follow an if scope"), builder.else_scope():
        builder.ret(ONE)
    with builder.if_scope(relay.const(True)):
        builder.ret(ONE)
        with pytest.raises(RuntimeError, match="outermost scope"):
            builder.get()
    with pytest.raises(RuntimeError, match="has no else scope"):
        builder.get()
    with pytest.raises(RuntimeError, match="result already"):
        builder.ret(ONE)
    with pytest.raises(RuntimeError, match="before its if"), builder.if_scope(relay.const(True)):
        builder.ret(ONE)
    with pytest.raises(ValueError, match="its name and type"):
        builder.let(("a", None, None), ONE)


def test_the_type_of_a_variable_is_its_annotation() -> None:
    builder = relay.ScopeBuilder()
    assert builder.type_of(relay.var("x", shape=(2,))) == relay.TensorType((2,))
    assert isinstance(builder.type_of(ONE), relay.IncompleteType)


@pytest.mark.parametrize("named", [True, False])
def test_a_loop_runs_while_its_condition_holds(named: bool) -> None:
    i, total = relay.var("i", "int32"), relay.var("total", shape=(2,))
    given = [i, total] if named else [relay.const(0), relay.const(np.zeros(2, "float32"))]
    loop = while_loop(
        lambda i, total: relay.less(i, relay.const(4)),
        given,
        lambda i, total: [relay.add(i, ONE), relay.add(total, relay.cast(i, "float32"))],
    )
    start = [relay.const(0), relay.const(np.zeros(2, "float32"))]
    main = relay.Function([], relay.Call(loop, start))
    count, result = evaluate(relay.transform.InferType()(relay.IRModule.from_expr(main)))
    assert count == 4 and result.tolist() == [6.0, 6.0]


def test_foreach_says_what_to_use() -> None:
    with pytest.raises(UserError, match="while_loop"):
        foreach(ONE, ONE, lambda *args: args)
