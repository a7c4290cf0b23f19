"""Recurrent layers of every size and with every attribute against ONNX Runtime, in process and from their artefacts.

A layer of one unit has constants of one element; they once were stored to where they are mapped read-only.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from artifact_runner import ArtifactRunner
from recurrent_layers import Layer, every_attribute, every_size

import byoc

TARGETS = (["c"], ["json", "c"], ["opencl", "c"], ["c", "opencl", "c"], ["c", "c"])
STRICT = {"c": {"flags": ["-Wall", "-Wextra", "-Wdiscarded-qualifiers", "-Wcast-qual", "-Werror", "-O1"]}}
CRASHED = [
    Layer("LSTM", 5, 1, 3, "constant"), *(Layer(op, 1, 1, 3) for op in ("LSTM", "GRU", "RNN")),
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
    "layer, targets", [*((layer, ["c"]) for layer in CRASHED[:4]), *((layer, TARGETS[3]) for layer in CRASHED[4:])],
    ids=str,
)
def test_a_layer_whose_constants_have_one_element_runs_from_its_artefact(layer, targets, artifact_runner, tmp_path):
    check(layer, targets, artifact_runner, tmp_path)


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
