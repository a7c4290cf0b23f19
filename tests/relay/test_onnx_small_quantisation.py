"""QuantizeLinear and DequantizeLinear of 8-bit floats and 4-bit integers against ONNX Runtime."""

import itertools

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import byoc
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

ROWS, COLUMNS, BLOCK = 6, 40, 16
KINDS = {
    "int4": (ml_dtypes.int4, -8, 8),
    "uint4": (ml_dtypes.uint4, 0, 16),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 0, 1),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 0, 1),
}
RNG = np.random.default_rng(2)
# where the scales lie: their shape, and the attributes that say so
PLACES = {
    "one": ((), {}),
    "a column": ((COLUMNS,), {"axis": 1}),
    "a row": ((ROWS,), {"axis": 0}),
    "a block": ((ROWS, -(-COLUMNS // BLOCK)), {"axis": 1, "block_size": BLOCK}),
}


def run(nodes: list, feeds: dict, held: dict) -> tuple[np.ndarray, object]:
    """What ONNX Runtime gives without optimizations, and the model."""
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in feeds.items()]
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    held = [numpy_helper.from_array(a, n) for n, a in held.items()]
    graph = helper.make_graph(nodes, "g", values, [result], held)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0], made


def parameters(kind: str, shape: tuple) -> dict[str, np.ndarray]:
    dtype, low, high = KINDS[kind]
    zeros = np.asarray(RNG.integers(low, high, shape))
    return {"s": np.asarray(2.0 ** RNG.integers(-4, 2, shape)).astype("float32"), "z": zeros.astype(dtype)}


NEWER = [("a column", "int4")]  # which ONNX Runtime 1.23 computes otherwise


@pytest.mark.parametrize(
    "place, kind",
    [
        pytest.param(*both, marks=pytest.mark.newer_onnxruntime if both in NEWER else ())
        for both in itertools.product(PLACES, KINDS)
    ],
)
@pytest.mark.parametrize("saturate", [1, 0])
def test_there_and_back_is_onnx_runtimes(kind, place, saturate):
    """Scales are powers of two and numbers lie on eighths of them, so that many are ties."""
    shape, attrs = PLACES[place]
    x = (RNG.integers(-200, 200, (ROWS, COLUMNS)) / 16).astype("float32")
    x[0, :4] = [1e9, -1e9, -0.0, 3e4]
    there = {**attrs, "saturate": saturate} if kind.startswith("float") else attrs
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **there),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs),
    ]
    want, made = run(nodes, {"x": x}, parameters(kind, shape))
    np.testing.assert_array_equal(np.asarray(evaluate(import_onnx(made), {"x": x})), want)


@pytest.mark.needs_cc
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", PLACES)
def test_weights_that_are_dequantised_are_onnx_runtimes(kind, place):
    """No part of it runs on numpy kernels: what is constant is folded to floats, or to bytes that code is made of."""
    dtype, low, high = KINDS[kind]
    shape, attrs = PLACES[place]
    numbers = RNG.normal(size=(ROWS, COLUMNS)) if kind.startswith("float") else RNG.integers(low, high, (ROWS, COLUMNS))
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["f"], **attrs),
        helper.make_node("MatMul", ["x", "f"], ["y"]),
    ]
    x = RNG.normal(size=(3, ROWS)).astype("float32")
    want, made = run(nodes, {"x": x}, {"w": numbers.astype(dtype), **parameters(kind, shape)})
    library = byoc.compile(made)
    assert not library.report.get("host_fallbacks")
    np.testing.assert_allclose(library.run({"x": x})[0], want, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "precision", [TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE]
)
@pytest.mark.parametrize("kind", [np.int8, ml_dtypes.int4])
def test_the_quotient_is_of_the_precision_that_the_node_says(precision, kind):
    """By ONNX's reference: a quotient of fewer bits becomes a tie where the exact one is none."""
    x, scale = (RNG.normal(size=4000) * 9).astype("float32"), np.array(0.37, "float32")
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], precision=precision, output_dtype=_element(kind))
    given = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)]
    result = [helper.make_tensor_value_info("y", _element(kind), x.shape)]
    graph = helper.make_graph([node], "g", given, result, [numpy_helper.from_array(scale, "s")])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=11)
    (want,) = ReferenceEvaluator(made).run(None, {"x": x})
    np.testing.assert_array_equal(np.asarray(evaluate(import_onnx(made), {"x": x})).astype("i4"), want.astype("i4"))


def _element(kind: type) -> int:
    return helper.np_dtype_to_tensor_dtype(np.dtype(kind))
