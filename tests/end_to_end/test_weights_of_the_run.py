"""Convolutions whose weights come when the model runs, and have free sizes, against ONNX Runtime.

Held to in process and from the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import ImportModelError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
HEAD = '<ir_version: 10, opset_import: ["" : 22]>\n'
RNG = np.random.default_rng(17)


def f32(*shape):
    return RNG.standard_normal(shape).astype("float32")


def parsed(text):
    return onnx.parser.parse_model(HEAD + text)


def convolved(operator, attrs, weight="A, B, K, L"):
    return (
        f"g (float[N, 4, H, W] x, float[{weight}] w, float[E] b) => (float[?, ?, ?, ?] y) "
        f"{{ y = {operator} <{attrs}> (x, w, b) }}"
    )


def conv(batch, size, weight):
    return {"x": f32(batch, 4, size, size), "w": f32(*weight), "b": f32(weight[0])}


def transposed(batch, size, weight, groups=1):
    return {"x": f32(batch, 4, size, size), "w": f32(*weight), "b": f32(weight[1] * groups)}


def deformed(batch, size, weight, groups=1, masked=False):
    outs, taps = [size - k + 1 for k in weight[2:]], groups * weight[2] * weight[3]
    feed = {"x": f32(batch, 4, size, size), "w": f32(*weight), "b": f32(weight[0])}
    feed["o"] = f32(batch, 2 * taps, *outs)
    return {**feed, "m": f32(batch, taps, *outs)} if masked else feed


DEFORMED = """g (float[N, 4, H, W] x, float[O, D, K, L] w, float[N, P, R, S] o, float[O] b) => (float[N, O, ?, ?] y)
    { y = DeformConv (x, w, o, b) }"""
MASKED = """g (float[N, 4, H, W] x, float[O, D, K, L] w, float[N, P, R, S] o, float[O] b, float[N, Q, R, S] m)
    => (float[N, O, ?, ?] y) { y = DeformConv <offset_group = 2> (x, w, o, b, m) }"""
MASKED_IMAGES = """g (float[N, 4, H, W] x, float[3, 4, 2, 2] w, float[N, 8, R, S] o, float[3] b, float[N, 4, R, S] m)
    => (float[N, 3, ?, ?] y) { y = DeformConv (x, w, o, b, m) }"""
WEIGHTS = [(2, 4, 3, 3), (6, 4, 2, 4), (3, 4, 5, 3)]
SPREAD = [(4, 2, 3, 3), (4, 6, 2, 4), (4, 3, 4, 5)]
SHORT = [(4, 2, 1, 3), (4, 6, 2, 1)]


def against(text, feeds, tmp_path, runner):
    model = parsed(text)
    library = byoc.compile(model)
    path = library.save(tmp_path / "model.byoc")
    right = [session(model).run(None, feed) for feed in feeds]
    for found in ([library.run(feed) for feed in feeds], runner.run(path, feeds)):
        for got, want in zip(found, right, strict=True):
            np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-4, strict=True)


@pytest.mark.parametrize(
    "text, feeds",
    [
        (convolved("Conv", "strides = [2, 1], pads = [1, 0, 2, 1]"), [conv(n, 6, w) for n, w in enumerate(WEIGHTS, 1)]),
        (convolved("Conv", 'auto_pad = "SAME_UPPER", strides = [2, 3]'), [conv(2, s, WEIGHTS[1]) for s in (4, 5, 7)]),
        (convolved("Conv", 'auto_pad = "SAME_LOWER", strides = [2, 1]'), [conv(2, s, WEIGHTS[2]) for s in (4, 5)]),
        (convolved("Conv", "group = 2"), [conv(1, 6, (k, 2, *w[2:])) for k, w in zip((2, 4, 6), WEIGHTS, strict=True)]),
        (convolved("Conv", "group = 4"), [conv(1, 6, (4 * k, 1, 3, k)) for k in (1, 2)]),
        (convolved("Conv", "strides = [2, 2]", "O, 4, 3, 3"), [conv(2, 7, (k, 4, 3, 3)) for k in (1, 9, 4)]),
        (convolved("Conv", "kernel_shape = [3, 2], pads = [1, 1, 1, 1]"), [conv(1, 5, (k, 4, 3, 2)) for k in (1, 3)]),
        (
            convolved("ConvTranspose", "strides = [2, 2], pads = [1, 0, 1, 0], output_padding = [1, 0]"),
            [transposed(n, 4, w) for n, w in enumerate(SPREAD, 1)],
        ),
        (
            convolved("ConvTranspose", "group = 2, dilations = [2, 1]"),
            [transposed(1, n, w, 2) for n, w in enumerate(SPREAD, 3)],
        ),
        (
            convolved("ConvTranspose", "group = 2, strides = [2, 1]", "4, B, 3, 2"),
            [transposed(1, 5, (4, k, 3, 2), 2) for k in (1, 3, 2)],
        ),
        (
            convolved("ConvTranspose", 'auto_pad = "SAME_UPPER", strides = [2, 2]'),
            [transposed(2, n, w) for n, w in enumerate(SPREAD, 3)],
        ),
        (
            convolved("ConvTranspose", 'auto_pad = "SAME_LOWER", strides = [2, 1]'),
            [transposed(2, n, w) for n, w in enumerate(SPREAD, 3)],
        ),
        (
            convolved("ConvTranspose", "output_shape = [10, 9], strides = [2, 2]"),
            [transposed(1, 5, w) for w in SPREAD],
        ),
        (
            convolved("ConvTranspose", "output_shape = [9, 9], strides = [2, 2]", "4, 2, 3, 3"),
            [transposed(1, n, (4, 2, 3, 3)) for n in (5, 4)],
        ),
        (DEFORMED, [deformed(1, 5, (2, 4, 2, 2)), deformed(2, 4, (3, 4, 1, 3))]),
        (MASKED, [deformed(1, 5, (2, 4, 2, 2), 2, True), deformed(2, 4, (3, 4, 1, 3), 2, True)]),
        (MASKED_IMAGES, [deformed(1, 5, (3, 4, 2, 2), 1, True), deformed(2, 4, (3, 4, 2, 2), 1, True)]),
    ],
)
def test_a_convolution_takes_weights_of_free_sizes(text, feeds, tmp_path, artifact_runner):
    against(text, feeds, tmp_path, artifact_runner)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
def test_a_short_kernel_of_a_free_size_gives_what_one_of_a_fixed_size_does(mode):
    """As many as the data times the stride, as ONNX has it; ONNX Runtime gives fewer."""
    attrs = f'auto_pad = "{mode}", strides = [2, 3]'
    free = byoc.compile(parsed(convolved("ConvTranspose", attrs)))
    for weight in SHORT:
        feed = transposed(2, 5, weight)
        fixed = byoc.compile(parsed(convolved("ConvTranspose", attrs, ", ".join(map(str, weight)))))
        found = free.run(feed)[0]
        assert found.shape == (2, weight[1], 10, 15)
        np.testing.assert_allclose(found, fixed.run(feed)[0], rtol=1e-5, atol=1e-5, strict=True)


@pytest.mark.parametrize(
    "text, feeds",
    [
        (convolved("Conv", "strides = [2, 2]", "O, 4, 3, 3"), [conv(2, 7, (k, 4, 3, 3)) for k in (1, 9)]),
        (convolved("Conv", "group = 2", "O, I, 3, 3"), [conv(2, 7, (k, 2, 3, 3)) for k in (2, 4)]),
        (convolved("ConvTranspose", "group = 2", "I, O, 3, 2"), [transposed(1, 5, (4, k, 3, 2), 2) for k in (1, 3)]),
    ],
)
@pytest.mark.parametrize("target", ["c", pytest.param("opencl", marks=pytest.mark.needs_opencl)])
def test_code_is_generated_for_free_channels(text, feeds, target):
    model = parsed(text)
    library = byoc.compile(model, targets=[target])
    assert not library.fallbacks
    for feed in feeds:
        np.testing.assert_allclose(library.run(feed)[0], session(model).run(None, feed)[0], rtol=1e-4, atol=1e-4)


def test_a_weight_that_is_not_of_the_stated_kernel_is_an_error():
    library = byoc.compile(parsed(convolved("Conv", "kernel_shape = [3, 2]")))
    with pytest.raises(Exception, match="sizes L and 2 of two tensors"):
        library.run(conv(1, 5, (2, 4, 3, 3)))
    with pytest.raises(ImportModelError, match=r"kernel_shape is \[3, 2\], but the weight has \[3, 3\]"):
        byoc.compile(parsed(convolved("Conv", "kernel_shape = [3, 2]", "O, 4, 3, 3")))
