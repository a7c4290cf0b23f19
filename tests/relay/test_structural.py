"""Structural equality and hash: what counts, what does not, and what the message says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from byoc import relay
from byoc.runtime.core.ndarray import NDArray

F2 = relay.TensorType((2,))


def function(make: Callable[..., relay.Expr], *names: str, **options: object) -> relay.Function:
    params = [relay.Var(name, F2) for name in names]
    return relay.Function(params, make(*params), **options)


def shared(x: relay.Var) -> relay.Expr:
    e = relay.exp(x)
    return relay.add(e, e)


PAIRS = {
    "names of variables": (True, function(relay.exp, "a"), function(relay.exp, "b")),
    "sharing": (False, function(shared, "a"), function(lambda x: relay.add(relay.exp(x), relay.exp(x)), "a")),
    "which parameter": (
        False,
        function(lambda x, y: relay.add(x, y), "a", "b"),
        function(lambda x, y: relay.add(y, x), "a", "b"),
    ),
    "the operator": (False, function(relay.exp, "a"), function(relay.log, "a")),
    "attributes": (False, function(lambda x: relay.clip(x, 0, 1), "a"), function(lambda x: relay.clip(x, 0, 2), "a")),
    "an int for a float": (
        True,
        function(lambda x: relay.clip(x, 0, 1), "a"),
        function(lambda x: relay.clip(x, 0.0, 1.0), "a"),
    ),
    "function attributes": (False, function(relay.exp, "a", attrs={"Composite": "x"}), function(relay.exp, "a")),
    "order of function attributes": (
        True,
        function(relay.exp, "a", attrs={"p": 1, "q": [1]}),
        function(relay.exp, "a", attrs={"q": (1,), "p": 1}),
    ),
    "the number of parameters": (False, function(lambda x, y: x, "a", "b"), function(lambda x: x, "a")),
    "declared result": (False, function(relay.exp, "a", ret_type=F2), function(relay.exp, "a")),
    "type of a parameter": (
        False,
        function(relay.exp, "a"),
        relay.Function([v := relay.Var("a", relay.TensorType((3,)))], relay.exp(v)),
    ),
    "constants of equal bytes": (True, relay.const([1.0, np.nan]), relay.const([1.0, np.nan])),
    "constants of other values": (False, relay.const([1.0]), relay.const([2.0])),
    "constants of another dtype": (False, relay.const([0]), relay.const([0.0])),
    "constants of another shape": (False, relay.const([0, 0]), relay.const([[0], [0]])),
    "strings": (
        False,
        relay.Constant(NDArray(np.array(["a"], object))),
        relay.Constant(NDArray(np.array(["b"], object))),
    ),
    "empty tuples": (True, relay.Tuple([t := relay.Tuple([]), t]), relay.Tuple([relay.Tuple([]), relay.Tuple([])])),
    "shared projections": (
        True,
        relay.Tuple([p := relay.TupleGetItem(relay.GlobalVar("g"), 0), p]),
        relay.Tuple([relay.TupleGetItem(relay.GlobalVar("g"), 0) for _ in range(2)]),
    ),
    "the projected field": (
        False,
        relay.TupleGetItem(relay.GlobalVar("g"), 0),
        relay.TupleGetItem(relay.GlobalVar("g"), 1),
    ),
    "global names": (False, relay.GlobalVar("f"), relay.GlobalVar("g")),
    "lets": (True, *(relay.Let(v := relay.Var(n), relay.const(1), relay.Tuple([v, v])) for n in "ab")),
    "a let that is not used": (False, relay.Let(relay.Var("a"), relay.const(1), relay.const(2)), relay.const(2)),
    "branches": (
        False,
        relay.If(relay.const(True), relay.const(1), relay.const(2)),
        relay.If(relay.const(True), relay.const(2), relay.const(1)),
    ),
    "references": (False, relay.RefCreate(relay.const(1)), relay.RefRead(relay.const(1))),
    "types": (True, relay.TupleType([F2]), relay.TupleType([relay.TensorType((2,))])),
    "named dimensions": (False, relay.TensorType((relay.Any("N"),)), relay.TensorType((relay.Any("M"),))),
    "attribute objects": (True, relay.clip(relay.const(1.0), 0, 1).attrs, relay.clip(relay.const(2.0), 0, 1).attrs),
    "a type and an expression": (False, F2, relay.Var("x", F2)),
}


@pytest.mark.parametrize("what", PAIRS)
def test_equality_sees_what_is_structure_and_hash_follows(what: str) -> None:
    equal, a, b = PAIRS[what]
    assert relay.structural_equal(a, b) is equal
    assert relay.structural_equal(b, a) is equal
    assert (relay.structural_hash(a) == relay.structural_hash(b)) is equal
    assert relay.structural_equal(a, a) and relay.structural_equal(b, b)


def test_spans_and_inferred_types_do_not_count() -> None:
    a, b = function(relay.exp, "a"), function(relay.exp, "a")
    b.body.span = relay.Span.named("node")
    relay.analysis.infer_expr(b.body)
    relay.assert_structural_equal(a, b)
    assert relay.structural_hash(a) == relay.structural_hash(b)


def test_free_variables_are_themselves_unless_they_may_be_mapped() -> None:
    x, y = relay.Var("x", F2), relay.Var("y", F2)
    assert relay.structural_equal(relay.exp(x), relay.exp(x))
    assert not relay.structural_equal(relay.exp(x), relay.exp(y))
    assert relay.structural_equal(relay.exp(x), relay.exp(y), map_free_vars=True)
    assert relay.structural_hash(relay.exp(x), True) == relay.structural_hash(relay.exp(y), True)
    assert not relay.structural_equal(relay.add(x, x), relay.add(x, y), map_free_vars=True)
    assert not relay.structural_equal(relay.add(x, y), relay.add(x, x), map_free_vars=True)


def test_modules_are_compared_by_the_names_of_their_functions() -> None:
    f, g = function(relay.exp, "a"), function(relay.log, "a")
    one, other = relay.IRModule({"f": f, "g": g}), relay.IRModule({"g": g, "f": f})
    relay.assert_structural_equal(one, other)
    assert relay.structural_hash(one) == relay.structural_hash(other)
    with pytest.raises(ValueError, match="@g is on the left alone; @h is on the right alone"):
        relay.assert_structural_equal(one, relay.IRModule({"f": f, "h": g}))
    assert not relay.structural_equal(one, relay.IRModule({"f": g, "g": f}))
    assert not relay.structural_equal(one, one.with_attr("k", 1))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("sharing", r"at the root.body.args\[1\]: this Call of exp is shared on one side with another use"),
        ("the operator", "at the root.body: op is 'exp' on the left, 'log' on the right"),
        ("attributes", "at the root.body: attrs is .*a_max=1.* on the left, .*a_max=2.* on the right"),
        ("the number of parameters", "at the root: 2 parameters on the left, 1 on the right|sub-expressions"),
        ("type of a parameter", "the variables %a and %a: type_annotation is Tensor"),
        ("constants of other values", r"data is float32\[1\] \[1.0\] on the left"),
        ("references", "at the root: a RefCreate on the left, a RefRead on the right"),
        ("named dimensions", r"TensorType Tensor\[\(\?N,\), float32\] on the left"),
    ],
)
def test_the_message_says_where_and_how_they_differ(what: str, message: str) -> None:
    _, a, b = PAIRS[what]
    with pytest.raises(ValueError, match=message) as caught:
        relay.assert_structural_equal(a, b)
    assert isinstance(caught.value, AssertionError)


def test_the_message_shows_both_texts() -> None:
    with pytest.raises(ValueError, match=r"(?s)--- left ---\nfn .*exp.*--- right ---\nfn .*log"):
        relay.assert_structural_equal(function(relay.exp, "a"), function(relay.log, "a"))


def test_the_hash_is_the_same_in_every_process() -> None:
    program = (
        "from byoc import relay; x = relay.var('x', shape=(2,)); e = relay.exp(x);"
        "f = relay.Function([x], relay.add(e, e), attrs={'a': 1, 'b': 'c'}); print(relay.structural_hash(f))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1
