"""Whole models, as their exporters write them, against ONNX Runtime: in process, and from the artefact elsewhere."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime
import pytest
import whole_models as whole
from artifact_runner import ArtifactRunner
from onnx import ModelProto
from tabular_and_quantised import classifier, quantised, regressor, residual_network

import byoc

pytestmark = [pytest.mark.needs_cc, pytest.mark.optimized]
Feeds = Mapping[str, np.ndarray]


def session(model: ModelProto) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def assert_equal(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    for got, want in zip(found, wanted, strict=True):
        assert (got.shape, got.dtype) == (want.shape, want.dtype)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * max(1.0, float(np.abs(want).max(initial=0))))
        else:
            np.testing.assert_array_equal(got, want)


def check(model: ModelProto, feeds: Sequence[Feeds], runner: ArtifactRunner, folder: pathlib.Path) -> list[int]:
    """The outputs are ONNX Runtime's here and from the artefact; the sizes of the first outputs."""
    runtime, library = session(model), byoc.compile(model)
    wanted = [runtime.run(None, dict(f)) for f in feeds]
    loaded = runner.run(library.save(folder / "m.byoc"), feeds)
    for each, want, from_artefact in zip(feeds, wanted, loaded, strict=True):
        assert_equal(library.run(each), want)
        assert_equal(from_artefact, want)
    return [int(want[0].size) for want in wanted]


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


@pytest.mark.parametrize("opset", [11, pytest.param(18, marks=pytest.mark.slow)])
def test_a_detector_with_a_grid_of_its_image_finds_onnx_runtimes_boxes(opset, artifact_runner, tmp_path):
    shapes = ((1, 3, 32, 32), (2, 3, 40, 24), (1, 3, 64, 48))
    model = whole.yolo(np.random.default_rng(5), opset, ["batch", 3, "height", "width"])
    assert min(check(model, [{"image": image(*s)} for s in shapes], artifact_runner, tmp_path)) > 0


def test_a_detector_with_prior_boxes_finds_onnx_runtimes_boxes(artifact_runner, tmp_path):
    model = whole.ssd(np.random.default_rng(5), 13, 32)
    feeds = [{"image": image(batch, 3, 32, 32)} for batch in (1, 2)]
    assert min(check(model, feeds, artifact_runner, tmp_path)) > 0


def test_a_detector_that_may_find_nothing_finds_what_onnx_runtime_does(artifact_runner, tmp_path):
    model = whole.faster(np.random.default_rng(5), 13)
    cases = ((24, 0.3), (32, 0.05), (16, 1.0))
    feeds = [{"image": image(1, 3, n, n + 8), "threshold": np.array(t, "float32")} for n, t in cases]
    assert check(model, feeds, artifact_runner, tmp_path)[-1] == 0


@pytest.mark.parametrize("opset", [13, pytest.param(16, marks=pytest.mark.slow)])
def test_a_voice_model_keeps_its_states_at_both_rates(opset, artifact_runner, tmp_path):
    feeds, rng = [], np.random.default_rng(1)
    for batch, samples, rate in ((1, 64, 16000), (2, 96, 8000), (1, 128, 8000)):
        sound, state = (rng.standard_normal(s).astype("float32") for s in ((batch, samples), (2, batch, 6)))
        feeds.append({"sound": sound, "state": state, "rate": np.array(rate)})
    check(whole.voice(np.random.default_rng(5), opset), feeds, artifact_runner, tmp_path)


@pytest.mark.parametrize("make", [whole.decoder, whole.attention_decoder])
def test_a_decoder_with_caches_says_onnx_runtimes_tokens(make, artifact_runner, tmp_path):
    model = make(np.random.default_rng(5), 17)
    runtime, library = session(model), byoc.compile(model)
    assert not library.report.get("host_fallbacks")
    given, wanted = [], []
    for batch, prompt in ((1, 5), (2, 3)):
        shapes = {i.name: i.shape for i in runtime.get_inputs()}
        past = {n: np.zeros((batch, s[1], 0, s[3]), "float32") for n, s in shapes.items() if n.startswith("past")}
        tokens = np.random.default_rng(2).integers(0, whole.WORDS, (batch, prompt))
        for total in range(prompt, prompt + 4):
            feeds = {"input_ids": tokens, "attention_mask": np.ones((batch, total), "int64"), **past}
            feeds = {name: feeds[name] for name in shapes}
            given.append(feeds)
            wanted.append(runtime.run(None, feeds))
            found = library.run(feeds)
            assert_equal(found, wanted[-1])
            past = dict(zip(past, found[1:], strict=True))
            tokens = found[0][:, -1:].argmax(-1)
    for found, want in zip(artifact_runner.run(library.save(tmp_path / "m.byoc"), given), wanted, strict=True):
        assert_equal(found, want)


FOREST = [np.random.default_rng(n).standard_normal((n, 6)) for n in (1, 7, 130)]


@pytest.mark.parametrize("labels", [(0, 1), (3, 1, 7)], ids=str)
def test_a_forest_chooses_onnx_runtimes_classes(labels, artifact_runner, tmp_path):
    check(classifier(np.random.default_rng(4), labels), [{"x": x} for x in FOREST], artifact_runner, tmp_path)


@pytest.mark.parametrize("targets, aggregate", [(1, "AVERAGE"), pytest.param(3, "SUM", marks=pytest.mark.slow)])
def test_a_forest_gives_onnx_runtimes_numbers(targets, aggregate, artifact_runner, tmp_path):
    model = regressor(np.random.default_rng(4), targets, aggregate)
    check(model, [{"x": x.astype("float32")} for x in FOREST], artifact_runner, tmp_path)


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize(
    "activations, by_channels", [("QUInt8", True), pytest.param("QInt8", False, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("exact_bytes")
def test_a_quantised_network_gives_onnx_runtimes_bytes(form, activations, by_channels, artifact_runner, tmp_path):
    model = quantised(residual_network(np.random.default_rng(4)), tmp_path, form, activations, by_channels)
    check(model, [{"image": image(batch, 3, 32, 32)} for batch in (1, 3)], artifact_runner, tmp_path)
