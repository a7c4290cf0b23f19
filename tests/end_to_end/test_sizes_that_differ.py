"""Sizes of two names that must be one: inputs in which they differ are an error, nothing is read behind an end."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import byoc
from byoc.runtime.errors import IndexOutsideError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc


def model(operator, left, right, **attributes):
    """*operator* of two tensors of such sizes, the second one as often as it takes tensors."""
    names = ["a", *["b"] * (2 if "Norm" in operator else 1)]
    node = helper.make_node(operator, names, ["y"], name="node", **attributes)
    values = [
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("a", left), ("b", right), ("y", None))
    ]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    "operator, left, right, fits, differs, attributes",
    [
        ("Concat", ["P", 3], ["B", 3], ((2, 3), (2, 3)), ((4, 3), (2, 3)), {"axis": 1}),
        ("Concat", ["P", 3], ["B", 3], ((2, 3), (2, 3)), ((2, 3), (4, 3)), {"axis": 1}),
        ("Concat", ["P", "R"], ["B", 3], ((5, 3), (2, 3)), ((2, 5), (2, 3)), {"axis": 0}),
        ("MatMul", ["M", "P"], ["B", "N"], ((4, 5), (5, 2)), ((4, 6), (5, 2)), {}),
        ("MatMul", ["M", "P"], [5, "N"], ((4, 5), (5, 2)), ((4, 6), (5, 2)), {}),
        ("MatMul", [2, "M", 5], [2, "B", "N"], ((2, 4, 5), (2, 5, 2)), ((2, 4, 5), (2, 4, 2)), {}),
        ("Gemm", ["M", "P"], ["N", "B"], ((4, 5), (2, 5)), ((4, 5), (2, 3)), {"transB": 1}),
        ("InstanceNormalization", ["M", "P", 8], ["B"], ((2, 4, 8), (4,)), ((2, 4, 8), (2,)), {}),
        ("LayerNormalization", ["M", "P"], ["B"], ((2, 4), (4,)), ((2, 4), (2,)), {}),
    ],
)
def test_an_error_where_they_differ(operator, left, right, fits, differs, attributes):
    made = model(operator, left, right, **attributes)
    library = byoc.compile(made)
    given = {n: np.random.default_rng(1).standard_normal(s).astype("f4") for n, s in zip("ab", fits, strict=True)}
    np.testing.assert_allclose(library.run(given)[0], session(made).run(None, given)[0], rtol=1e-4, atol=1e-5)
    with pytest.raises(IndexOutsideError, match="the sizes .* of two tensors that belong together differ"):
        library.run({n: np.ones(s, "f4") for n, s in zip("ab", differs, strict=True)})
