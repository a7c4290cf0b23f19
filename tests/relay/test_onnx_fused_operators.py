"""ONNX Runtime's own operators against ONNX Runtime, and a model that its optimiser has rewritten."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(0)
QUIET = onnxruntime.SessionOptions()
QUIET.log_severity_level = 4


def numbers(*shape):
    return RNG.standard_normal(shape).astype("float32")


def check(nodes, inputs, outputs, constants=()):
    """The outputs of *nodes*, which have names, are ONNX Runtime's."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs],
        [numpy_helper.from_array(a, n) for n, a in dict(constants).items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    compare(helper.make_model(graph, opset_imports=opsets, ir_version=8), inputs)


def compare(model, inputs):
    session = onnxruntime.InferenceSession(model.SerializeToString(), QUIET, providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)
    got = evaluate(import_onnx(model), inputs)
    for found, expected in zip(got if isinstance(got, list) else [got], wanted, strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def fused(op, inputs, outputs=("y",), constants=(), **attrs):
    names = [*inputs, *dict(constants)]
    node = helper.make_node(op, names, outputs, domain="com.microsoft", **attrs)
    check([node], inputs, [name for name in outputs if name], constants)


@pytest.mark.parametrize(
    "op, biased, attrs",
    [
        ("BiasGelu", True, {}),
        ("FastGelu", True, {}),
        ("FastGelu", False, {}),
        ("QuickGelu", False, {}),
        ("QuickGelu", False, {"alpha": 1.1}),
        ("Gelu", False, {}),
    ],
)
def test_a_gelu_is_onnx_runtimes(op, biased, attrs):
    fused(op, {"x": numbers(2, 3, 8)}, constants={"b": numbers(8)} if biased else {}, **attrs)


@pytest.mark.parametrize("flags", range(16))
def test_a_fused_product_takes_operands_in_every_order_of_axes(flags):
    names = ("transA", "transB", "transBatchA", "transBatchB")
    attrs = {name: flags >> k & 1 for k, name in enumerate(names)}

    def operand(letter, rows, columns):
        lead, matrix = [2, 3], [columns, rows] if attrs[f"trans{letter}"] else [rows, columns]
        return numbers(matrix[0], *lead, matrix[1]) if attrs[f"transBatch{letter}"] else numbers(*lead, *matrix)

    fused("FusedMatMul", {"a": operand("A", 4, 5), "b": operand("B", 5, 6)}, alpha=0.25, **attrs)


@pytest.mark.parametrize("outputs", [("y",), ("y", "", "", "sum")])
@pytest.mark.parametrize("skip", [(2, 3, 8), (1, 3, 8), (3, 8)])
@pytest.mark.parametrize("rest", ["g", "gb", "gbc"])
def test_a_normalisation_of_a_sum_is_onnx_runtimes(outputs, skip, rest):
    inputs = {"x": numbers(2, 3, 8), "s": numbers(*skip)}
    fused("SkipLayerNormalization", inputs, outputs, {name: numbers(8) for name in rest}, epsilon=1e-5)


def feed_forward():
    """A residual block as exporters write it: each gelu, product and normalisation in its smallest parts."""
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["h"]),
        make("Add", ["h", "b"], ["hb"]),
        make("Div", ["hb", "root"], ["d"]),
        make("Erf", ["d"], ["e"]),
        make("Add", ["e", "one"], ["e1"]),
        make("Mul", ["hb", "e1"], ["m"]),
        make("Mul", ["m", "half"], ["g"]),
        make("MatMul", ["g", "v"], ["p"]),
        make("Add", ["p", "c"], ["pc"]),
        make("Add", ["pc", "x"], ["r"]),
        make("LayerNormalization", ["r", "scale", "shift"], ["n"]),
        make("Transpose", ["n"], ["t"], perm=[0, 2, 1]),
        make("MatMul", ["n", "t"], ["q"]),
        make("Mul", ["q", "half"], ["y"]),
    ]
    constants = {
        "w": numbers(8, 16),
        "b": numbers(16),
        "v": numbers(16, 8),
        "c": numbers(8),
        "scale": numbers(8),
        "shift": numbers(8),
        "root": np.float32(2**0.5),
        "one": np.float32(1),
        "half": np.float32(0.5),
    }
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, 3])],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_a_model_that_onnx_runtime_has_optimised_is_read(tmp_path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimised.onnx")
    onnxruntime.InferenceSession(feed_forward().SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimised = onnx.load(tmp_path / "optimised.onnx")
    operators = {node.op_type for node in optimised.graph.node}
    assert {"SkipLayerNormalization", "FusedMatMul"} <= operators and not {"Erf", "LayerNormalization"} & operators
    compare(optimised, {"x": numbers(2, 3, 8)})
