"""DeadCodeElimination with inline_once and ignore_impurity, text to text."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.relay import transform
from byoc.relay.expr import Call, Function, Let, Var
from byoc.relay.interpreter import evaluate
from byoc.relay.structure.structural import assert_structural_equal


def parsed(text):
    return transform.InferType()(relay.fromtext('#[version = "0.0.5"]\n' + text))


def check(before, after, **options):
    got = transform.DeadCodeElimination(**options)(parsed(before))
    assert_structural_equal(got, parsed(after), map_free_vars=True)
    return got


ONCE = {
    "a chain": (
        "def @main(%x: int32) { let %a = add(%x, 1); let %b = add(%a, 2); let %c = add(%b, 3); %c }",
        "def @main(%x: int32) { add(add(add(%x, 1), 2), 3) }",
    ),
    "what is read twice stays": (
        "def @main(%x: int32) { let %a = add(%x, 1); let %b = add(%a, %a); %b }",
        "def @main(%x: int32) { let %a = add(%x, 1); add(%a, %a) }",
    ),
    "what a function inside reads stays outside": (
        """def @main() { let %x = add(1, 1); let %f = fn (%y: int32) -> int32 { let %w = add(%y, %y); add(%x, %w) };
             (%f(2), %f(3)) }""",
        """def @main() { let %x = add(1, 1); let %f = fn (%y: int32) -> int32 { add(%x, add(%y, %y)) };
             (%f(2), %f(3)) }""",
    ),
    "what nothing reads goes": (
        "def @main(%x: int32) { let %a = add(%x, 1); let %b = add(%a, 2); %x }",
        "def @main(%x: int32) { %x }",
    ),
}


@pytest.mark.parametrize("case", list(ONCE))
def test_what_is_read_once_moves_to_its_reader(case):
    check(*ONCE[case], inline_once=True)


def test_impurity_is_ignored_on_request():
    x, r, u, a = relay.var("x", shape=(), dtype="int32"), Var("r"), Var("u"), Var("a")
    body = Let(r, relay.RefCreate(x), Let(u, relay.RefWrite(r, relay.const(2)), relay.add(x, relay.const(1))))
    mod = transform.InferType()(relay.IRModule.from_expr(Function([x], body)))
    kept = transform.DeadCodeElimination()(mod)
    assert isinstance(kept["main"].body, Let)
    gone = transform.DeadCodeElimination(ignore_impurity=True)(mod)
    assert isinstance(gone["main"].body, Call) and evaluate(gone, [np.int32(3)]) == 4
    read = Let(r, relay.RefCreate(x), Let(a, relay.RefRead(r), Let(u, relay.RefWrite(r, relay.const(2)), a)))
    mod = transform.InferType()(relay.IRModule.from_expr(Function([x], read)))
    once = transform.DeadCodeElimination(inline_once=True)(mod)
    assert evaluate(once, [np.int32(3)]) == 3


def test_a_recursive_function_that_is_called_once_keeps_its_name():
    text = """def @main(%n: int32) -> int32 {
      let %f = fn (%i: int32) -> int32 { if (equal(%i, 0)) { 0 } else { %f(subtract(%i, 1)) } }; %f(%n) }"""
    got = transform.DeadCodeElimination(inline_once=True)(parsed(text))
    assert_structural_equal(got, parsed(text))
    unused = text.replace("%f(%n)", "%n")
    assert_structural_equal(
        transform.DeadCodeElimination()(parsed(unused)), parsed("def @main(%n: int32) -> int32 { %n }")
    )


@pytest.mark.slow
def test_100000_bindings_are_inlined():
    x = relay.var("x", shape=(2,))
    variables = [Var(f"v{k}") for k in range(100_000)]
    body = variables[-1]
    for variable, value in zip(reversed(variables), reversed([x, *variables[:-1]]), strict=True):
        body = Let(variable, relay.negative(value), body)
    got = transform.DeadCodeElimination(inline_once=True)(relay.IRModule.from_expr(Function([x], body)))
    assert isinstance(got["main"].body, Call)
