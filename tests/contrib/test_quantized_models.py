"""Whole models as ONNX Runtime's tools quantize them: on the host as ONNX Runtime computes them, and on the NPU."""

from collections import Counter

import numpy as np
import onnx
import pytest
from quantized_nets import (
    SMALL,
    attention_net,
    optimised,
    quantized,
    quantized_dynamically,
    samples,
    session,
    wide_net,
)

import byoc

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.needs_cc
INPUTS = samples(SMALL, 4)
OTHERS = samples(SMALL, 3, seed=4)


@pytest.fixture(scope="module")
def nets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quantized_models")
    return wide_net(folder / "wide.onnx"), attention_net(folder / "attention.onnx")


def operators(path):
    return {node.op_type for node in onnx.load(path).graph.node}


def step_of(path):
    """The scale of what the last DequantizeLinear of a model reads."""
    graph = onnx.load(path).graph
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    return float(next(held[n.input[1]] for n in reversed(graph.node) if n.op_type == "DequantizeLinear"))


def assert_as_onnx_runtime(library, path, step):
    """At most *step* off: of integers what a rounding of numbers that lie half-way changes."""
    wanted = session(path)
    for sample in OTHERS:
        np.testing.assert_allclose(library.run(sample)[0], wanted.run(None, sample)[0], rtol=0, atol=1.01 * step)


def taken(library):
    return Counter(d["operator"] for d in library.report["plan"]["decisions"] if d["target"] == "int8_npu")


@pytest.mark.parametrize("activations", [pytest.param("QInt8", marks=pytest.mark.slow), "QUInt8"])
def test_a_model_of_onnx_runtimes_own_operators(nets, tmp_path, activations, exact_bytes):
    path = quantized(nets[0], tmp_path / "q.onnx", INPUTS, activations, "QOperator")
    own = {"LeakyRelu", "Sigmoid", "Add", "Mul", "Concat", "AveragePool", "GlobalAveragePool", "Softmax"}
    assert {f"QLinear{name}" for name in own} | {"QGemm", "QLinearMatMul", "QLinearConv"} <= operators(path)
    assert_as_onnx_runtime(byoc.compile(path, targets=["c"]), path, step_of(path))
    library = byoc.compile(path, targets=["int8_npu", "c"])
    assert taken(library) == {"int8_npu.conv2d": 3, "int8_npu.dense": 2, "qnn.add": 1, "nn.max_pool2d": 1}
    assert_as_onnx_runtime(library, path, 3 * step_of(path))  # halves up in each of seven layers


@pytest.mark.parametrize(
    ("form", "activations"),
    [
        ("QOperator", "QUInt8"),
        pytest.param("QOperator", "QInt8", marks=pytest.mark.slow),
        pytest.param("QDQ", "QUInt8", marks=pytest.mark.slow),
    ],
)
def test_numbers_that_move_between_regions_stay_what_they_are(nets, tmp_path, form, activations, exact_bytes):
    """Padding by a zero point, parts of a tensor, joined ones, a reshape to three axes and dense layers over them."""
    path = quantized(nets[1], tmp_path / "q.onnx", INPUTS, activations, form)
    library = byoc.compile(path, targets=["int8_npu", "c"])
    assert taken(library)["int8_npu.conv2d"] == 2
    assert_as_onnx_runtime(library, path, 3 * step_of(path))  # halves up, then softmax over what they are


@pytest.mark.slow
def test_a_model_of_16_bits_before_onnx_had_them(nets, tmp_path):
    path = quantized(nets[0], tmp_path / "q.onnx", INPUTS, "QUInt16", UseQDQContribOps=True)
    assert {node.domain for node in onnx.load(path).graph.node if node.op_type == "QuantizeLinear"} == {"com.microsoft"}
    assert_as_onnx_runtime(byoc.compile(path, targets=["c"]), path, 3 * step_of(path))


@pytest.mark.parametrize("net", [0, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.newer_onnxruntime
def test_a_model_that_is_quantized_when_it_runs(nets, tmp_path, net):
    path = quantized_dynamically(nets[net], tmp_path / "q.onnx")
    assert {"DynamicQuantizeLinear", "MatMulInteger", "ConvInteger"} <= operators(path)
    assert_as_onnx_runtime(byoc.compile(path, targets=["c"]), path, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("net", "form", "level", "own"),
    [
        (0, "QOperator", "ORT_ENABLE_ALL", "QLinearConv"),  # with channels innermost
        (0, "dynamic", "ORT_ENABLE_EXTENDED", "DynamicQuantizeMatMul"),
        (1, "dynamic", "ORT_ENABLE_EXTENDED", "MatMulIntegerToFloat"),
    ],
)
def test_a_quantized_model_that_its_optimiser_saved(nets, tmp_path, net, form, level, own):
    made = tmp_path / "q.onnx"
    if form == "dynamic":
        quantized_dynamically(nets[net], made)
    else:
        quantized(nets[net], made, INPUTS, "QUInt8", form)
    path = optimised(made, tmp_path / "optimised.onnx", level)
    assert own in {node.op_type for node in onnx.load(path).graph.node if node.domain == "com.microsoft"}
    assert_as_onnx_runtime(byoc.compile(path, targets=["c"]), path, 1e-5 if form == "dynamic" else step_of(path))
