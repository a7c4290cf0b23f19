"""The text of patterns, as Relay's printers have it."""

from __future__ import annotations

import pytest


@pytest.fixture
def patterns(relay):
    from tvm.relay import dataflow_pattern

    return dataflow_pattern


def test_each_pattern_has_a_text(relay, patterns):
    p = patterns
    x = p.wildcard()
    texts = {
        "*": x,
        "VarPattern(x)": p.is_var("x"),
        "ConstantPattern()": p.is_constant(),
        "Op(add)": p.is_op("add"),
        "CallPatternNode(Op(add), [*, ConstantPattern()])": p.is_op("add")(x, p.is_constant()),
        "CallPatternNode(Op(add), (nullptr))": p.is_op("add")(None),
        "AltPattern(Op(add) | Op(subtract))": p.is_op("add") | p.is_op("subtract"),
        "TuplePattern([*, VarPattern()])": p.is_tuple([x, p.is_var()]),
        "TupleGetItemPatternNode(*, 1)": p.is_tuple_get_item(x, 1),
        "FunctionPatternNode([VarPattern(a)], *)": p.FunctionPattern([p.is_var("a")], x),
        "IfPattern(*, *, *)": p.is_if(x, x, x),
        "TypePattern(* has type Tensor[(2,), float32])": x.has_type(relay.TensorType((2,))),
        "DataTypePattern(* has dtype float32)": x.has_dtype("float32"),
        "ShapePattern(* has shape [1, 2])": x.has_shape((1, 2)),
        "AttrPattern(* has attributes {\"data_layout\": 'NCHW'})": x.has_attr({"data_layout": "NCHW"}),
        "DominatorPattern(Op(add), *, Op(exp))": p.is_op("exp").dominates(p.is_op("add")),
        "2": p.is_expr(relay.const(2)),
    }
    for text, pattern in texts.items():
        assert repr(pattern).startswith(text) if text == "2" else repr(pattern) == text
        assert str(pattern) == repr(pattern)


def test_a_pattern_that_refers_to_itself_has_an_end(patterns):
    loop = patterns.wildcard()
    loop.redirect_to(patterns.is_op("exp")(loop) | patterns.is_var())
    assert repr(loop) == "*"


def test_a_class_of_one_s_own_is_named(patterns):
    class Mine(patterns.DFPattern):
        pass

    assert repr(Mine()) == "Mine()"
