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


WINDOWS = {  # window and stride: what comes before the data is one number, or depends on the size, by the stride
    "as far as they reach": (2, 2),
    "overlapping": (3, 2),
    "far overlapping": (5, 3),
    "apart": (4, 5),
}
AFTER = {  # of h, the data, what else is computed
    "MaxPool": "MaxPool <{pads}> (h)",
    "AveragePool": "AveragePool <{pads}> (h)",
    "AveragePool of all": "AveragePool <{pads}, count_include_pad: int = 1> (h)",
    "LpPool": "LpPool <{pads}, p: int = 2> (h)",
    "Conv": "Conv <{pads}> (h, w, b)",
}
IMAGES = [(1, 7, 8, 3), (2, 16, 13, 3), (1, 9, 5, 3)]


# ONNX Runtime's pools take negative padding where windows lie apart, and read beside the data
CASES = [(op, window) for op in AFTER for window in WINDOWS if window != "apart" or op == "Conv"]


# every other pair of an operator and a window with the one mode, the rest with the other; all with both by `-m slow`
MODES = ("SAME_UPPER", "SAME_LOWER")
PADDED = [
    pytest.param(op, mode, window, marks=[pytest.mark.slow] if (number + MODES.index(mode)) % 2 else [])
    for number, (op, window) in enumerate(CASES)
    for mode in MODES
]


@pytest.mark.parametrize("op, mode, window", PADDED)
def test_windows_of_free_sizes_are_padded_to_as_many_as_strides(op, mode, window, tmp_path, artifact_runner):
    """As TensorFlow's models are exported: ``ceil(H / stride)`` windows, whose padding follows from the size."""
    size, stride = WINDOWS[window]
    pads = f'auto_pad: string = "{mode}", kernel_shape: ints = [{size}, {size}], strides: ints = [{stride}, {stride}]'
    text = f"""g (float[N, H, W, 3] x) => (float[N, P, Q, 3] y) {{
        h = Transpose <perm: ints = [0, 3, 1, 2]> (x)
        p = {AFTER[op].format(pads=pads)}
        r = Relu (p)
        y = Transpose <perm: ints = [0, 2, 3, 1]> (r)
    }}"""
    weights = {"w": f32(3, 3, size, size), "b": f32(3)} if op == "Conv" else {}
    model = model_of(text, opset=19, **weights)
    library = compiled_like_onnx_runtime(model, [{"x": f32(*s)} for s in IMAGES], tmp_path, artifact_runner)
    assert not library.report["host_fallbacks"]


def test_a_transposed_convolution_of_free_sizes_gives_stride_times_as_much(tmp_path, artifact_runner):
    text = """g (float[N, 3, H, W] x) => (float[N, 2, P, Q] y) {
        y = ConvTranspose <auto_pad: string = "SAME_LOWER", strides: ints = [2, 3]> (x, w)
    }"""
    feeds = [{"x": f32(1, 3, 5, 4)}, {"x": f32(2, 3, 8, 1)}]
    library = compiled_like_onnx_runtime(model_of(text, w=f32(3, 2, 3, 4)), feeds, tmp_path, artifact_runner)
    assert library.run(feeds[0])[0].shape == (1, 2, 10, 12)


@pytest.mark.parametrize("known", [True, False])
def test_the_padding_of_quantized_windows_is_the_zero_point(known, tmp_path, artifact_runner):
    """By a quantized convolution where scale and zero point are known, else in int32."""
    zero = "zero" if known else "z"
    text = f"""g (uint8[N, 3, H, W] x, uint8 z) => (uint8[N, 4, P, Q] y) <
        float s = {{0.05}}, uint8 zero = {{7}}, float t = {{0.02}}, uint8 u = {{128}}, float v = {{0.1}}> {{
        y = QLinearConv <auto_pad: string = "SAME_UPPER", strides: ints = [2, 2]> (x, s, {zero}, w, t, u, v, u)
    }}"""
    weight = RNG.integers(90, 160, (4, 3, 3, 3)).astype("uint8")
    shapes = [(1, 3, 8, 7), (2, 3, 5, 12)]
    feeds = [{"x": RNG.integers(0, 60, s).astype("uint8"), "z": np.array(7, "uint8")} for s in shapes]
    compiled_like_onnx_runtime(model_of(text, w=weight), feeds, tmp_path, artifact_runner)


def test_the_greatest_of_windows_of_integers_is_no_padding(tmp_path, artifact_runner):
    text = """g (int8[N, 2, H] x) => (int8[N, 2, P] y) {
        y = MaxPool <auto_pad: string = "SAME_UPPER", kernel_shape: ints = [3], strides: ints = [2]> (x)
    }"""
    feeds = [{"x": RNG.integers(-128, -90, (1, 2, n)).astype("int8")} for n in (4, 9)]
    compiled_like_onnx_runtime(model_of(text), feeds, tmp_path, artifact_runner)
