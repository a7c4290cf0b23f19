"""Index simplification: readable results on what emitted code contains, and equality on random expressions."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from byoc import te
from byoc.codegen.c.language.spellings import C
from byoc.codegen.kernel.expr_text import ExprWriter
from byoc.codegen.kernel.simplify import Simplifier
from byoc.codegen.kernel.writer import Names
from byoc.te.expr import Binary, Const

A, J, K = te.Index("i", 6), te.Index("j", 8), te.Index("k", 48)
N, M = te.Size("n"), te.Size("m")
ROW = te.Index("r", N)


def text(expr: te.PrimExpr) -> str:
    simplify = Simplifier()
    return ExprWriter(C, Names(()), simplify).text(simplify(expr))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        ((A * 8 + J) // 8, "i"),
        ((A * 8 + J) % 8, "j"),
        ((A * 8 + J) // 4, "i * 2 + j / 4"),
        ((A * 8 + J + 64) % 8, "j"),
        (K // 8 * 8 + K % 8, "k"),
        ((K // 8) * 80 + (K % 8) * 10 + 3, "k * 10 + 3"),
        (K // 4 // 3, "k / 12"),
        ((A + J + 16) // 7 * 7 + (A + J + 16) % 7, "i + j + 16"),
        (K // 12 * 36 + K % 12 // 4 * 12 + K % 12 % 4 * 3, "k * 3"),
        ((A * 16 + J * 2) // 4, "i * 4 + j / 2"),
        (A + J - A, "j"),
        (te.minimum(A, 5), "i"),
        (te.maximum(J - 7, 0), "0"),
        (te.minimum(A * 4, 17), None),
        ((ROW * 4 + te.Index("c", 4)) // 4, "r"),
        ((te.Index("b", 3) * N + ROW) // N, "b"),
        ((te.Index("b", 3) * N + ROW) % N, "r"),
        (te.Index("only", 1) + A, "i"),
    ],
)
def test_an_index_becomes_short(expr, expected):
    got = text(expr)
    assert got == expected if expected is not None else "min" in got


@pytest.mark.parametrize(
    ("cond", "expected"),
    [
        (A < 6, "true"),
        (A >= 0, "true"),
        (A > 5, "false"),
        (A < 5, "i < 5"),
        (A + J < 13, "true"),
        ((A - 1) >= 0, "i - 1 >= 0"),
        (te.all_of(A >= 0, J < 3), "j < 3"),
        (ROW < N, "r < n"),
    ],
)
def test_a_condition_that_bounds_decide_vanishes(cond, expected):
    assert text(cond) == expected


def test_a_negative_dividend_is_divided_by_a_helper_that_rounds_down():
    assert text((A - K) // 4) == "floordiv_i64(i - k, 4)"
    assert text((A - 3) // 4) == "(i + 1) / 4 - 1"


_AXES = (te.Index("a", 5), te.Index("b", 4), te.Index("c", 3))
_leaf = st.one_of(st.sampled_from(_AXES), st.integers(-9, 20).map(lambda v: te.const(v, "int64")))


def _node(inner):
    positive = st.integers(1, 12).map(lambda v: te.const(v, "int64"))
    return st.one_of(
        st.tuples(st.sampled_from(["add", "sub", "mul", "min", "max"]), inner, inner).map(lambda t: te.binary(*t)),
        st.tuples(st.sampled_from(["div", "mod"]), inner, positive).map(lambda t: te.binary(*t)),
        st.tuples(st.sampled_from(["lt", "le", "gt", "ge", "eq", "ne"]), inner, inner, inner, inner).map(
            lambda t: te.if_then_else(Binary(*t[:3]), t[3], t[4])
        ),
    )


def value(expr: te.PrimExpr, point: dict[te.Index, int]) -> int:
    """The expression at one point, by Python's own integers."""
    rules = {
        "add": int.__add__,
        "sub": int.__sub__,
        "mul": int.__mul__,
        "div": int.__floordiv__,
        "mod": int.__mod__,
        "min": min,
        "max": max,
        "lt": int.__lt__,
        "le": int.__le__,
        "gt": int.__gt__,
        "ge": int.__ge__,
        "eq": int.__eq__,
        "ne": int.__ne__,
    }
    if isinstance(expr, Const):
        return int(expr.value)
    if isinstance(expr, te.Index):
        return point[expr]
    if isinstance(expr, Binary):
        return rules[expr.op](value(expr.left, point), value(expr.right, point))
    return value(expr.then if value(expr.cond, point) else expr.otherwise, point)


@settings(max_examples=300, deadline=None)
@given(st.recursive(_leaf, _node, max_leaves=12))
def test_a_simplified_index_is_equal_everywhere(expr):
    simple = Simplifier()(expr)
    low, high = Simplifier().bounds(expr)
    for numbers in itertools.product(*(range(a.extent) for a in _AXES)):
        point = dict(zip(_AXES, numbers, strict=True))
        want = value(expr, point)
        assert value(simple, point) == want
        assert low <= want <= high
