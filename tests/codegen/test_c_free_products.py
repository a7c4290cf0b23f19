"""Products of matrices whose rows, columns or terms the run decides: vectors and tiles, as for fixed sizes."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import byoc

pytestmark = pytest.mark.needs_cc
KINDS = {
    "rows": ("M", 70, 90),
    "columns": (40, 70, "N"),
    "terms": (40, "K", 90),
    "rows and columns": ("M", 70, "N"),
    "rows and terms": ("M", "K", 90),
    "all": ("M", "K", "N"),
    "one size for all": ("N", "N", "N"),
}
SIZES = (1, 2, 5, 17, 64, 67, 130)


def product(rows, terms, columns, turned=False, batch=()):
    """``[batch, rows, terms]`` times ``[terms, columns]``, or with *turned* ``[columns, terms]``, plus 1."""
    right = [*batch, columns, terms] if turned else [*batch, terms, columns]
    rank = len(right)
    nodes = [helper.make_node("Transpose", ["b"], ["t"], perm=[*range(rank - 2), rank - 1, rank - 2])] if turned else []
    nodes += [
        helper.make_node("MatMul", ["a", "t" if turned else "b"], ["p"]),
        helper.make_node("Add", ["p", "one"], ["c"]),
    ]
    inputs = [("a", [*batch, rows, terms]), ("b", right)]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in inputs],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, [*batch, rows, columns])],
        [onnx.numpy_helper.from_array(np.float32(1), "one")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def code_of(library):
    return "".join(m.get_source() for m in library.module.walk() if m.type_key == "c")


def shapes_of(kind, sizes):
    """Rows, terms and columns for a few sizes of those that are free."""
    names = list(dict.fromkeys(d for d in kind if isinstance(d, str)))
    for own in itertools.islice(itertools.product(sizes, repeat=len(names)), 0, None, 1 if len(names) < 2 else 5):
        bound = dict(zip(names, own, strict=True))
        yield tuple(bound.get(d, d) for d in kind)


@pytest.mark.parametrize("turned", [False, True], ids=["as it lies", "turned"])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_free_sizes(kind, turned):
    library = byoc.compile(product(*KINDS[kind], turned=turned), targets=["c"])
    rng = np.random.default_rng(3)
    for rows, terms, columns in shapes_of(KINDS[kind], SIZES):
        a, b = (rng.standard_normal(s).astype("float32") for s in ((rows, terms), (terms, columns)))
        got = library(a, np.ascontiguousarray(b.T) if turned else b)
        want = a.astype("float64") @ b + 1
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6 * (1 + np.abs(a) @ np.abs(b)).max())
    assert "sum_f32x" in code_of(library) or "_panel" in code_of(library)  # and not one term after the other


def test_batches_of_free_products():
    library = byoc.compile(product("M", "K", "N", batch=("B",)), targets=["c"])
    rng = np.random.default_rng(4)
    for batch, rows, terms, columns in ((1, 3, 33, 5), (3, 16, 48, 18), (2, 1, 100, 70), (4, 70, 1, 1)):
        a, b = (rng.standard_normal(s).astype("float32") for s in ((batch, rows, terms), (batch, terms, columns)))
        np.testing.assert_allclose(library(a, b), a.astype("float64") @ b + 1, rtol=0, atol=2e-5)


def test_a_sum_of_no_terms_is_nothing():
    library = byoc.compile(product("M", "K", "N"), targets=["c"])
    np.testing.assert_array_equal(library(np.zeros((3, 0), "float32"), np.zeros((0, 20), "float32")), np.ones((3, 20)))
    assert library(np.zeros((0, 9), "float32"), np.zeros((9, 20), "float32")).shape == (0, 20)
