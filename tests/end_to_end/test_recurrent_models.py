"""Recurrent layers of every size and with every attribute against ONNX Runtime, in process and from their artefacts.

A layer of one unit has constants of one element; they once were stored to where they are mapped read-only.
"""

from __future__ import annotations

import pathlib

import numpy as np
import onnx
import onnxruntime
import pytest
from artifact_runner import ArtifactRunner
from recurrent_layers import Layer, every_attribute, every_size

import byoc

TARGETS = (["c"], ["json", "c"], ["opencl", "c"], ["c", "opencl", "c"], ["c", "c"])
STRICT = {"c": {"flags": ["-Wall", "-Wextra", "-Wdiscarded-qualifiers", "-Wcast-qual", "-Werror", "-O1"]}}
CRASHED = [
    Layer("LSTM", 5, 1, 3, "constant"),
    *(Layer(op, 1, 1, 3) for op in ("LSTM", "GRU", "RNN")),
    *(Layer(op, 1, 1, 3, "none", "input") for op in ("LSTM", "GRU")),
]
SIZES, ATTRIBUTES = list(every_size()), list(every_attribute())

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]


def check(layer: Layer, targets: list[str], runner: ArtifactRunner, folder: pathlib.Path) -> None:
    """Run the layer on *targets* with one thread and two, in this process and from its artefact."""
    expected, feeds = layer.expected(), layer.feeds()
    library = byoc.compile(layer.model(), targets, backend_options=STRICT)
    path = library.save(folder / "layer.byoc")
    for threads in (1, 2):
        library.threads = threads
        here = library.executor().compute([feeds[s.name] for s in library.inputs])
        for found in (here, *runner.run(path, [feeds], threads)):
            for got, want in zip(found, expected, strict=True):
                assert (got.shape, got.dtype) == (want.shape, want.dtype)
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "layer, targets",
    [*((layer, ["c"]) for layer in CRASHED[:4]), *((layer, TARGETS[3]) for layer in CRASHED[4:])],
    ids=str,
)
def test_a_layer_whose_constants_have_one_element_runs_from_its_artefact(layer, targets, artifact_runner, tmp_path):
    check(layer, targets, artifact_runner, tmp_path)


@pytest.mark.parametrize("targets", TARGETS, ids="-".join)
def test_layers_one_after_another_of_other_lengths_give_what_onnxruntime_gives(targets):
    """An RNN goes over the two directions of a GRU's last states; a region that held both was once one loop."""
    numbers = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return onnx.numpy_helper.from_array(numbers.normal(0, 0.3, shape).astype("float32"), name)

    weights = [weight("w", 2, 24, 7), weight("r", 2, 24, 8), weight("v", 1, 17, 8), weight("s", 1, 17, 17)]
    nodes = [
        onnx.helper.make_node("GRU", ["x", "w", "r"], ["", "h"], hidden_size=8, direction="bidirectional"),
        onnx.helper.make_node("RNN", ["h", "v", "s"], ["y", "last"], hidden_size=17),
    ]
    ends = [
        onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)
        for n, s in (("x", (3, 1, 7)), ("y", (2, 1, 1, 17)), ("last", (1, 1, 17)))
    ]
    graph = onnx.helper.make_graph(nodes, "two", ends[:1], ends[1:], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    x = numbers.normal(0, 1, (3, 1, 7)).astype("float32")
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    found = byoc.compile(model, targets, backend_options=STRICT)(x)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("k", range(7, len(SIZES), 97))
def test_layers_of_some_sizes_give_what_onnxruntime_gives(k, artifact_runner, tmp_path):
    check(SIZES[k], TARGETS[k % len(TARGETS)], artifact_runner, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(len(SIZES)))
def test_layers_of_every_size_give_what_onnxruntime_gives(k, artifact_runner, tmp_path):
    for targets in (["c"], TARGETS[1 + k % 4]):
        check(SIZES[k], targets, artifact_runner, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(len(ATTRIBUTES)))
def test_layers_with_every_attribute_give_what_onnxruntime_gives(k, artifact_runner, tmp_path):
    for targets in (["c"], TARGETS[1 + k % 4]):
        check(ATTRIBUTES[k], targets, artifact_runner, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("k", range(1, len(SIZES), 8))
def test_a_recurrent_layer_as_generated_c_alone(k, artifact_runner, tmp_path):
    check(SIZES[k], ["c"], artifact_runner, tmp_path)
