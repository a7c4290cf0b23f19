"""Where the conditions of an expression change along an axis."""

import pytest

from byoc import te
from byoc.codegen.kernel.cuts import cuts
from byoc.codegen.kernel.simplify import Simplifier
from byoc.te.walk import map_expr

A = te.Index("a", 20)
CONDITIONS = {
    "below": (A < 5, [5]),
    "not above": (A <= 5, [6]),
    "above": (A > 5, [6]),
    "not below": (A >= 5, [5]),
    "equal": (te.binary("eq", A, 5), [5, 6]),
    "other than": (te.binary("ne", A, 5), [5, 6]),
    "from the other side": (te.binary("lt", te.const(5, "int64"), A), [6]),
    "of a multiple": (A * 3 < 10, [4]),
    "of a whole multiple": (A * 3 <= 9, [4]),
    "mirrored": (7 - A >= 0, [8]),
    "mirrored, of a multiple": (7 - A * 2 > 0, [4]),
    "never": (A < 0, []),
    "always": (A < 20, []),
    "with another axis": (A + te.Index("b", 3) < 5, [3, 5]),
    "only with another axis": (te.Index("b", 20) > A, [19]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_changes_where_it_is_cut_and_nowhere_else(name):
    condition, want = CONDITIONS[name]
    assert cuts(te.if_then_else(condition, te.const(1.0, "float32"), te.const(0.0, "float32")), A, Simplifier()) == want
    if "another" not in name:
        holds = [te.evaluate(te.compute((20,), lambda i: te.cast("int32", _at(condition, i))), {})]
        changes = [k for k in range(1, 20) if holds[0][k] != holds[0][k - 1]]
        assert set(changes) <= set(want)


def _at(condition, index):
    return map_expr(condition, lambda e: index if e is A else None)


def test_an_axis_of_symbolic_extent_has_no_cuts():
    axis = te.Index("a", te.Size("n"))
    assert cuts(te.if_then_else(axis < 5, te.const(1.0, "float32"), te.const(0.0, "float32")), axis, Simplifier()) == []
