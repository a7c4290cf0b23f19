"""MaxUnpool of free batches and images, whose indices are those of a MaxPool in the same model.

Held to ONNX Runtime, and with an output_shape to ONNX's reference: ONNX Runtime reads indices there as those of the
larger tensor. In process and from the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import byoc
from byoc.errors import ImportModelError, IndexOutsideError, UserError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
FEEDS = [(1, 3, 8, 6), (2, 3, 4, 4), (3, 3, 16, 2), (1, 3, 2, 2)]


def unpooled(free=("N", 3, "H", "W"), output_shape=None, kernel=2, stride=2, pad=0):
    """``MaxPool -> MaxUnpool``; *output_shape* is "input", "shape of x" or numbers."""
    axes = len(free) - 2
    attrs = {"kernel_shape": [kernel] * axes, "strides": [stride] * axes, "pads": [pad] * 2 * axes}
    inputs, constants = [helper.make_tensor_value_info("x", TensorProto.FLOAT, free)], []
    nodes = [helper.make_node("MaxPool", ["x"], ["p", "i"], **attrs), helper.make_node("Exp", ["p"], ["q"])]
    if output_shape == "input":
        inputs.append(helper.make_tensor_value_info("to", TensorProto.INT64, [len(free)]))
    elif output_shape == "shape of x":
        nodes.append(helper.make_node("Shape", ["x"], ["to"]))
    elif output_shape:
        constants.append(helper.make_tensor("to", TensorProto.INT64, [len(free)], output_shape))
    nodes.append(helper.make_node("MaxUnpool", ["q", "i", *(["to"] if output_shape else [])], ["u"], "unpool", **attrs))
    nodes.append(helper.make_node("Neg", ["u"], ["y"]))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [f"o{k}" for k in range(len(free))])
    graph = helper.make_graph(nodes, "g", inputs, [result], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def image(*shape):
    return {"x": np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")}


def check(model, wanted, feeds, tmp_path, artifact_runner):
    library = byoc.compile(model)
    assert library.report["host_fallbacks"] == {}
    path = library.save(tmp_path / "model.byoc")
    for found in ([library.run(each) for each in feeds], artifact_runner.run(path, feeds)):
        for (got,), each in zip(found, feeds, strict=True):
            np.testing.assert_allclose(got, wanted.run(None, each)[0], rtol=1e-5, atol=1e-6, strict=True)


@pytest.mark.parametrize(
    "options, shapes",
    [
        ({}, [*FEEDS, (0, 3, 4, 4)]),
        ({"free": tuple("NCHW")}, [*FEEDS, (2, 1, 4, 8)]),
        ({"free": ("N", 3, 8, 6)}, [(1, 3, 8, 6), (4, 3, 8, 6)]),
        ({"kernel": 3, "stride": 1}, FEEDS[:2]),
        ({"kernel": 3, "pad": 1}, [(1, 3, 9, 7), (2, 3, 5, 5), (1, 3, 1, 1)]),
        ({"free": tuple("NCL")}, [(2, 3, 8), (1, 1, 2)]),
        ({"free": tuple("NCDHW")}, [(2, 3, 8, 4, 2), (1, 1, 2, 2, 2)]),
    ],
    ids=str,
)
def test_elements_go_back_where_onnx_runtime_puts_them(options, shapes, tmp_path, artifact_runner):
    model = unpooled(**options)
    check(model, session(model), [image(*shape) for shape in shapes], tmp_path, artifact_runner)


@pytest.mark.parametrize("output_shape, more", [("input", 1), ("shape of x", 0)])
def test_zeros_stand_behind_up_to_an_output_shape(output_shape, more, tmp_path, artifact_runner):
    model = unpooled(output_shape=output_shape)
    feeds = [image(*shape) for shape in FEEDS]
    if more:
        feeds = [{**each, "to": np.add(each["x"].shape, [0, 0, 1, 2])} for each in feeds]
    check(model, ReferenceEvaluator(model), feeds, tmp_path, artifact_runner)


def test_zeros_stand_behind_up_to_known_sizes(tmp_path, artifact_runner):
    model = unpooled(output_shape=[2, 3, 9, 9])
    feeds = [image(1, 3, 8, 6), image(2, 3, 2, 8)]
    check(model, ReferenceEvaluator(model), feeds, tmp_path, artifact_runner)
    library = byoc.compile(model)
    with pytest.raises(UserError, match="output_shape less the sizes without it is a whole number from 0 on, got -1"):
        library.run(image(3, 3, 8, 6))


def test_a_place_behind_the_image_is_an_error_of_the_run():
    """A pool that leaves out a row counts places in rows that are longer than those that unpooling makes."""
    with pytest.raises(IndexOutsideError, match="node unpool"):
        byoc.compile(unpooled()).run(image(1, 3, 9, 7))


def test_a_pool_that_is_known_to_have_no_elements_is_refused():
    with pytest.raises(ImportModelError, match="no elements"):
        byoc.compile(unpooled(free=("N", 0, "H", "W")))
