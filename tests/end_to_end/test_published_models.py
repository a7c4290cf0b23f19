"""Forms of published models that were refused, in the smallest models that have them.

Compiled once for C with free sizes, run at several sizes and from the saved artefact, compared with ONNX Runtime.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx.parser
import pytest

import byoc

pytestmark = pytest.mark.needs_cc
onnxruntime = pytest.importorskip("onnxruntime")
RNG = np.random.default_rng(17)


def model_of(text: str, opset: int = 17, **weights: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\n{text}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(value, name) for name, value in weights.items())
    return model


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def compiled_like_onnx_runtime(
    model: onnx.ModelProto, feeds: Sequence[dict[str, np.ndarray]], path: Path, runner, atol: float = 1e-5
) -> byoc.runtime.Library:
    """The library, whose outputs, in this process and in a new one, are ONNX Runtime's for each of *feeds*."""
    library = byoc.compile(model, ["c"])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    loaded = runner.run(library.save(path / "m.byoc"), feeds)
    for feed, again in zip(feeds, loaded, strict=True):
        wanted = session.run(None, feed)
        for got, other, want in zip(library.run(feed), again, wanted, strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=atol)
            np.testing.assert_array_equal(got, other)
    return library


@pytest.mark.parametrize("mode", ["reflect", "constant"])
def test_the_spectrogram_of_a_signal_without_an_axis_of_parts(mode, tmp_path, artifact_runner):
    """A log-mel front end of speech recognisers: ``[batch, samples]``, which ONNX says should be ``[.., .., 1]``."""
    text = f"""g (float[B, N] x, int64[B] n) => (float[B, 6, T] y, int64[B] frames)
    <int64[4] pads = {{0, 8, 0, 8}}, int64 hop = {{5}}, int64 one = {{1}}, float least = {{0.001}}> {{
        wide = Pad <mode: string = "{mode}"> (x, pads)
        waves = STFT (wide, hop, window)
        power = ReduceSumSquare <axes: ints = [-1], keepdims: int = 0> (waves)
        mel = MatMul (power, banks)
        kept = Clip (mel, least)
        log = Log (kept)
        y = Transpose <perm: ints = [0, 2, 1]> (log)
        steps = Div (n, hop)
        frames = Add (steps, one)
    }}"""
    banks = RNG.random((9, 6)).astype("float32")
    model = model_of(text, window=np.hanning(16).astype("float32"), banks=banks)
    feeds = [{"x": f32(b, n), "n": np.full(b, n)} for b, n in ((1, 9), (2, 100), (3, 41))]
    library = compiled_like_onnx_runtime(model, feeds, tmp_path, artifact_runner, atol=1e-4)
    assert {why.split(" (")[0] for why in library.report["host_fallbacks"].values()} == {
        "stft has no tensor expression"
    }
