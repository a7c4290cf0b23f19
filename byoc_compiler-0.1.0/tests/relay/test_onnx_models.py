"""Published models, imported and run by the interpreter, give ONNX Runtime's outputs."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

MODELS = Path(__file__).parents[2] / ".." / "shared" / "models"


def outputs_of(name: str, feeds: dict[str, np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Ours and ONNX Runtime's outputs."""
    path = MODELS / name
    if not path.exists():
        pytest.skip(f"{path} is not there: the published models are not part of this repository")
    got = evaluate(import_onnx(path), feeds)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return (got if isinstance(got, list) else [got]), session.run(None, feeds)


def assert_same(got: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert len(got) == len(wanted)
    for ours, theirs in zip(got, wanted, strict=True):
        assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
        assert np.abs(ours - theirs).max() < 1e-4 * (theirs.max() - theirs.min())


def test_the_digit_classifier_gives_onnx_runtimes_scores() -> None:
    image = np.random.default_rng(1).uniform(0, 255, (1, 1, 28, 28)).astype("float32")
    assert_same(*outputs_of("mnist.onnx", {"Input3": image}))


def test_the_face_detector_gives_onnx_runtimes_scores_and_boxes() -> None:
    image = np.random.default_rng(2).uniform(-1, 1, (1, 3, 240, 320)).astype("float32")
    assert_same(*outputs_of("face_rfb_320.onnx", {"input": image}))


def test_the_face_detectors_shape_arithmetic_is_gone() -> None:
    path = MODELS / "face_rfb_320.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not there: the published models are not part of this repository")
    main = import_onnx(path)["main"]
    assert [p.name_hint for p in main.params] == ["input"]
    assert [t.shape for t in main.checked_type.ret_type.fields] == [(1, 4420, 2), (1, 4420, 4)]


@pytest.mark.slow
def test_the_style_network_gives_onnx_runtimes_picture() -> None:
    image = np.random.default_rng(3).uniform(0, 255, (1, 3, 720, 720)).astype("float32")
    assert_same(*outputs_of("style_candy.onnx", {"inputImage": image}))
