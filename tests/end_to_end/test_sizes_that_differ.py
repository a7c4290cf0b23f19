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
        ("PRelu", ["M", "C", 2], [4, 1], ((2, 4, 2), (4, 1)), ((2, 3, 2), (4, 1)), {}),
        ("PRelu", ["M", "C"], [4], ((2, 4), (4,)), ((2, 1), (4,)), {}),
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


GATHERS = [
    ("GatherElements", ["M", "N"], ["P", "N"], {"axis": 1}, ((3, 4), (2, 4)), ((3, 4), (5, 4))),
    ("GatherElements", ["M", 4, "N"], ["M", "P", "R"], {"axis": -2}, ((2, 4, 6), (2, 3, 5)), ((2, 4, 6), (2, 3, 7))),
    ("GatherElements", [3, "N"], ["P", "N"], {"axis": 1}, ((3, 4), (3, 4)), ((3, 4), (60, 4))),
    ("GatherND", ["M", "N"], ["P", 3, 1], {"batch_dims": 1}, ((2, 5), (2, 3, 1)), ((2, 5), (4, 3, 1))),
]


@pytest.mark.parametrize("target", ["c", "opencl"])
@pytest.mark.parametrize("operator, data, indices, attributes, fits, differs", GATHERS)
def test_no_element_is_read_beside_the_data(target, operator, data, indices, attributes, fits, differs):
    if target == "opencl" and byoc.contract.get_backend("opencl").unavailable():
        pytest.skip("no OpenCL device")
    node = helper.make_node(operator, ["a", "b"], ["y"], name="node", **attributes)
    values = [
        helper.make_tensor_value_info("a", TensorProto.FLOAT, data),
        helper.make_tensor_value_info("b", TensorProto.INT64, indices),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    ]
    graph = helper.make_graph([node], "g", values[:2], values[2:])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    rng = np.random.default_rng(1)
    library = byoc.compile(made, targets=[target])
    given = {"a": rng.standard_normal(fits[0]).astype("f4"), "b": rng.integers(0, 3, fits[1])}
    np.testing.assert_array_equal(library.run(given)[0], session(made).run(None, given)[0])
    with pytest.raises(
        IndexOutsideError, match=r"gather\w*: indices, length along axis \d: \d+ is outside a dimension of"
    ):
        library.run({"a": np.ones(differs[0], "f4"), "b": np.zeros(differs[1], "i8")})
    np.testing.assert_array_equal(library.run(given)[0], session(made).run(None, given)[0])


def test_numpy_kernels_say_the_same():
    from byoc.runtime.kernels import get_kernel

    with pytest.raises(IndexOutsideError, match="gather: indices, length along axis 0: 3 is outside a dimension of 2"):
        get_kernel("gather")(np.ones((2, 2)), np.zeros((3, 2), "i8"), axis=1)
    with pytest.raises(IndexOutsideError, match="take: data, length along axis 0: 3 is outside a dimension of 2"):
        get_kernel("take")(np.ones((3, 2)), np.zeros((2, 2), "i8"), axis=1, batch_dims=1)
