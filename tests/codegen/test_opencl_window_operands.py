"""Depthwise convolutions and pools that the 1x1 convolution behind them computes as it fetches its operand."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import byoc

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
CHANNELS, SIDE, ROWS = 24, 13, 8
RELU6 = [("lo", np.float32(0)), ("hi", np.float32(6))]
DEPTHWISE = ("Conv", ["x", "w"], "d", {"group": CHANNELS, "pads": [1, 1, 1, 1]})
PROJECT = ("Conv", ["d", "v"], "y", {})


def draw(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def model(nodes, weights, batch=1, outputs=("y",)):
    """An ONNX model of *nodes* (kind, inputs, output, attributes) over ``x`` [batch, CHANNELS, SIDE, SIDE]."""
    made = [helper.make_node(kind, ins, [out], **attributes) for kind, ins, out, attributes in nodes]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, CHANNELS, SIDE, SIDE])
    ys = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(made, "g", [x], ys, [numpy_helper.from_array(np.asarray(a), n) for n, a in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def launches_of(data, batch=1, **options):
    """The kernels that are launched, after a look at what ONNX Runtime gives."""
    library = byoc.compile(data, targets=["opencl"], backend_options={"opencl": {"schedules": "gpu", **options}})
    x = draw(batch, CHANNELS, SIDE, SIDE)
    wanted = onnxruntime.InferenceSession(data).run(None, {"x": x})
    for a, b in zip(library.run({"x": x}), wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    plans = [plan for m in library.module.walk() if m.type_key == "opencl" for plan in m.plans]
    return [launch for plan in plans for launch in plan.launches]


def schedules_of(data, batch=1, **options):
    """The schedules of the kernels that are launched, likewise."""
    return [launch.variants[0].schedule for launch in launches_of(data, batch, **options)]


def weights(rows=ROWS):
    return [("w", draw(CHANNELS, 1, 3, 3)), ("v", draw(rows, CHANNELS, 1, 1))]


@pytest.mark.parametrize("strides", [[1, 1], [2, 2]])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_depthwise_convolution_goes_into_the_product_behind_it(strides, batch):
    depthwise = ("Conv", ["x", "w", "b"], "c", {"group": CHANNELS, "pads": [1, 1, 1, 1], "strides": strides})
    nodes = [depthwise, ("Clip", ["c", "lo", "hi"], "d", {}), PROJECT]
    data = model(nodes, [*weights(), ("b", draw(CHANNELS)), *RELU6], batch)
    (schedule,) = schedules_of(data, batch)
    assert schedule.startswith("product")


def test_the_kernel_is_that_of_both_nodes_and_counts_a_window_once():
    nodes = [helper.make_node(*made[:2], [made[2]], name=made[0] + made[2], **made[3]) for made in (DEPTHWISE, PROJECT)]
    data = onnx.load_model_from_string(model([DEPTHWISE, PROJECT], weights()))
    for node, named in zip(data.graph.node, nodes, strict=True):
        node.name = named.name
    (launch,) = launches_of(data.SerializeToString())
    assert launch.nodes == ("Convd", "Convy")
    assert launch.work.operators == ("nn.conv2d", "nn.conv2d")
    windows, products = 2 * 9 * CHANNELS * SIDE**2, 2 * ROWS * CHANNELS * SIDE**2
    assert launch.work.operations == windows + products


def test_with_a_free_batch_too():
    (schedule,) = schedules_of(model([DEPTHWISE, PROJECT], weights(), batch="N"), batch=2)
    assert schedule.startswith("product")


@pytest.mark.parametrize("kind", ["MaxPool", "AveragePool"])
def test_a_pool_goes_into_the_product_behind_it(kind):
    pool = (kind, ["x"], "d", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
    (schedule,) = schedules_of(model([pool, PROJECT], weights()[1:]))
    assert schedule.startswith("product")


def test_numbers_that_are_none_stay_none():
    pool = ("MaxPool", ["x"], "d", {"kernel_shape": [2, 2]})
    library = byoc.compile(
        model([pool, PROJECT], weights()[1:]), targets=["opencl"], backend_options={"opencl": {"schedules": "gpu"}}
    )
    x = draw(1, CHANNELS, SIDE, SIDE)
    x[0, 3, 5, 5] = np.nan
    (got,) = library.run({"x": x})
    missing = np.isnan(got[0]).any(axis=0)
    assert missing[4:6, 4:6].all() and missing.sum() == 4


@pytest.mark.parametrize(
    ("nodes", "outputs"),
    [
        ([DEPTHWISE, PROJECT, ("Relu", ["d"], "z", {})], ("y", "z")),
        ([DEPTHWISE, PROJECT], ("y", "d")),
    ],
    ids=["read twice", "an output"],
)
def test_a_window_that_others_want_is_computed_once(nodes, outputs):
    assert len(schedules_of(model(nodes, weights(), outputs=outputs))) >= 2


def test_a_product_that_reads_a_window_several_times_leaves_it_alone():
    around = ("Conv", ["d", "v"], "y", {"pads": [1, 1, 1, 1]})
    data = model([DEPTHWISE, around], [weights()[0], ("v", draw(ROWS, CHANNELS, 3, 3))])
    assert len(schedules_of(data)) == 2


def test_a_product_of_many_rows_leaves_the_window_alone():
    assert len(schedules_of(model([DEPTHWISE, PROJECT], weights(rows=256)))) >= 2


def test_large_windows_are_kernels():
    depthwise = ("Conv", ["x", "w"], "d", {"group": CHANNELS, "pads": [2, 2, 2, 2]})
    data = model([depthwise, PROJECT], [("w", draw(CHANNELS, 1, 5, 5)), weights()[1]])
    assert len(schedules_of(data)) == 2
