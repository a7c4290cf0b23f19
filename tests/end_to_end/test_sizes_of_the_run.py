"""Lists of free length, and axes of free size that decide what an operator does, against ONNX Runtime.

How long a list is follows from ranks that the model says, and the run looks at it. Each is held to in process and from
the artefact in a process of its own.
"""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx.reference import ReferenceEvaluator

import byoc
from byoc.errors import ImportModelError, UserError
from fuzz.judge.onnx_runtime import session

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(23)


def f32(*shape):
    return RNG.standard_normal(shape).astype("float32")


def i64(*values):
    return np.array(values, "int64")


def parsed(opset, text):
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\n' + text)


def against_onnx_runtime(opset, text, feeds, tmp_path, runner):
    model = parsed(opset, text)
    library = byoc.compile(model)
    path = library.save(tmp_path / "model.byoc")
    right = [session(model).run(None, feed) for feed in feeds]
    for found in ([library.run(feed) for feed in feeds], runner.run(path, feeds)):
        for one, wanted in zip(found, right, strict=True):
            for got, want in zip(one, wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5, strict=True)


def patches(batch, channels, image, block):
    count = int(np.prod([a - b + 1 for a, b in zip(image, block, strict=True)]))
    return {"x": f32(batch, channels * int(np.prod(block)), count), "image": i64(*image), "block": i64(*block)}


PATCHES = [patches(1, 2, (4, 5), (2, 3)), patches(2, 1, (5, 3), (1, 3))]
GRIDS = [{"t": f32(2, 2, 3), "s": i64(2, 3, 4, 5)}, {"t": f32(1, 2, 3), "s": i64(1, 1, 3, 2)}]
LISTS = {
    "TopK": (
        11,
        "g (float[N, S] x, int64[L] k) => (float[N, ?] v, int64[N, ?] j) { v, j = TopK (x, k) }",
        [{"x": f32(2, 5), "k": i64(k)} for k in (1, 3, 5, 0)],
    ),
    "TopK in front": (
        11,
        "g (float[N, S] x, int64[L] k) => (float[?, S] v, int64[?, S] j) { v, j = TopK <axis=0, largest=0> (x, k) }",
        [{"x": f32(n, 5), "k": i64(k)} for n, k in ((4, 1), (6, 3))],
    ),
    "Col2Im by the output": (
        18,
        "g (float[N, R, C] x, int64[K] image, int64[L] block) => (float[?,?,?,?] y) { y = Col2Im (x, image, block) }",
        PATCHES,
    ),
    "Col2Im by a list": (
        18,
        "g (float[N, R, C] x, int64[K] image, int64[2] block) => (float[] y) { y = Col2Im (x, image, block) }",
        PATCHES,
    ),
    "Col2Im by an attribute": (
        18,
        """g (float[N, R, C] x, int64[K] image, int64[L] block) => (float[] z)
        { y = Col2Im <pads = [0, 0, 0, 0]> (x, image, block) z = Neg (y) }""",
        PATCHES,
    ),
    "AffineGrid by the matrices": (
        20,
        "g (float[N, 2, 3] t, int64[K] s) => (float[] y) { y = AffineGrid (t, s) }",
        GRIDS,
    ),
    "AffineGrid by the output": (
        20,
        "g (float[N, A, B] t, int64[K] s) => (float[?, ?, ?, ?] y) { y = AffineGrid <align_corners = 1> (t, s) }",
        GRIDS,
    ),
    "AffineGrid of a volume": (
        20,
        "g (float[N, A, 4] t, int64[K] s) => (float[] y) { y = AffineGrid (t, s) }",
        [{"t": f32(n, 3, 4), "s": i64(n, 3, 4, 5, 2)} for n in (1, 2)],
    ),
    "Reshape": (
        13,
        "g (float[N, S] x, int64[L] s) => (float[?, ?, ?] y) { y = Reshape (x, s) }",
        [{"x": f32(4, 3), "s": i64(*s)} for s in ((2, 2, 3), (3, -1, 1))],
    ),
    "Expand to more": (
        13,
        "g (float[N, S] x, int64[L] s) => (float[?, ?, ?] y) { y = Expand (x, s) }",
        [{"x": f32(1, 3), "s": i64(*s)} for s in ((2, 4, 3), (2, 1, 1))],
    ),
    "Expand to as many": (
        13,
        "g (float[N, S] x, int64[L] s) => (float[?, ?] y) { y = Expand (x, s) }",
        [{"x": f32(1, 3), "s": i64(*s)} for s in ((4, 3), (3,), (), (2, 1))],
    ),
    "ConstantOfShape": (
        13,
        "g (int64[L] s) => (float[?, ?, ?] y) { y = ConstantOfShape (s) }",
        [{"s": i64(*s)} for s in ((2, 2, 3), (0, 1, 4))],
    ),
    "Tile": (
        13,
        "g (float[N, S] x, int64[L] s) => (float[?, ?] y) { y = Tile (x, s) }",
        [{"x": f32(2, 3), "s": i64(*s)} for s in ((1, 3), (2, 0))],
    ),
    "Split": (
        13,
        "g (float[N, S] x, int64[L] s) => (float[?, S] y, float[?, S] z) { y, z = Split (x, s) }",
        [{"x": f32(4, 5), "s": i64(*s)} for s in ((1, 3), (4, 0))],
    ),
    "Squeeze": (
        13,
        "g (float[N, M, S] x, int64[L] a) => (float[?, ?] y) { y = Squeeze (x, a) }",
        [{"x": f32(2, 1, 3), "a": i64(1)}, {"x": f32(1, 2, 3), "a": i64(-3)}],
    ),
    "Unsqueeze": (
        13,
        "g (float[N, S] x, int64[L] a) => (float[?, ?, ?, ?] y) { y = Unsqueeze (x, a) }",
        [{"x": f32(2, 3), "a": i64(*a)} for a in ((0, 2), (-1, 1))],
    ),
    "ReduceSum": (
        13,
        "g (float[N, M, S] x, int64[L] a) => (float[?] y) { y = ReduceSum <keepdims = 0> (x, a) }",
        [{"x": f32(2, 4, 3), "a": i64(*a)} for a in ((0, 2), (-1, 1))],
    ),
    "GatherND": (
        13,
        "g (float[N, S] x, int64[A, L] j) => (float[?, ?] y) { y = GatherND (x, j) }",
        [{"x": f32(4, 5), "j": np.array(j)} for j in ([[1], [-1]], [[2], [0], [3]])],
    ),
    "ScatterND": (
        18,
        'g (float[N, S] x, int64[A, L] j, float[A] u) => (float[N, S] y) { y = ScatterND<reduction="add"> (x, j, u) }',
        [{"x": f32(4, 5), "j": np.array(j), "u": f32(len(j))} for j in ([[1, 2], [1, 2]], [[3, 4]])],
    ),
    "NonMaxSuppression": (
        11,
        "g (float[1, N, 4] b, float[1, C, N] s, int64[L] m) => (int64[?, 3] y) { y = NonMaxSuppression (b, s, m) }",
        [{"b": np.abs(f32(1, n, 4)), "s": f32(1, 2, n), "m": i64(m)} for n, m in ((5, 2), (3, 1))],
    ),
}


@pytest.mark.parametrize("opset, text, feeds", LISTS.values(), ids=LISTS)
def test_a_list_of_free_length_has_the_length_that_ranks_say(opset, text, feeds, tmp_path, artifact_runner):
    against_onnx_runtime(opset, text, feeds, tmp_path, artifact_runner)


def test_sizes_of_free_length_resize_as_onnx_has_it(tmp_path):
    """ONNX Runtime takes the length for 0 when it loads such a model."""
    text = """g (float[N, 2, H, W] x, int64[L] s) => (float[?, ?, ?, ?] y)
    { y = Resize <mode = "linear", axes = [2, 3]> (x, , , s) }"""
    model = parsed(19, text)
    library = byoc.compile(model)
    for sizes in ((6, 6), (4, 2)):
        feed = {"x": f32(1, 2, 3, 3), "s": i64(*sizes)}
        wanted = ReferenceEvaluator(model).run(None, feed)[0]
        np.testing.assert_allclose(library.run(feed)[0], wanted, rtol=1e-5, atol=1e-5)


def test_a_list_of_another_length_than_ranks_say_is_an_error_of_the_run():
    library = byoc.compile(parsed(13, "g (float[N] x, int64[L] s) => (float[?, ?] y) { y = Reshape (x, s) }"))
    with pytest.raises(UserError, match="the sizes L and 2 .* one has 3 elements"):
        library.run({"x": f32(6), "s": i64(1, 2, 3)})
    library = byoc.compile(parsed(13, "g (float[N] x, int64[L] s) => (float[?] y) { y = Expand (x, s) }"))
    with pytest.raises(UserError, match="node Expand_0 .*the declared rank less the length of input 1"):
        library.run({"x": f32(1), "s": i64(1, 2)})


DECIDED = {
    "Reshape": (
        "g (float[N, S] x, int64[L] s) => (float[] z, float[N, S] n) { y = Reshape (x, s) z = Exp (y) n = Neg (x) }",
        [{"x": f32(4, 3), "s": i64(*s)} for s in ((2, 2, 3), (12,), (3, 4), (1, 2, 2, 1, 3, 1, 1), (-1, 1))],
    ),
    "Reshape, then one rank": (
        """g (float[N, S] x, int64[L] s) => (float[?, ?, ?] z)
        { a = Reshape (x, s) b = Exp (a) z = Transpose <perm = [2, 0, 1]> (b) }""",
        [{"x": f32(4, 3), "s": i64(*s)} for s in ((2, 2, 3), (3, 1, 4))],
    ),
    "Col2Im": (
        "g (float[N, R, C] x, int64[K] image, int64[L] block) => (float[] y) { y = Col2Im (x, image, block) }",
        [*PATCHES, patches(1, 2, (4, 5, 3), (2, 3, 1)), patches(2, 2, (4,), (2,))],
    ),
    "Squeeze": (
        "g (float[N, M, S] x, int64[L] a) => (float[] z) { y = Squeeze (x, a) z = Neg (y) }",
        [{"x": f32(*s), "a": i64(*a)} for s, a in (((2, 1, 3), (1,)), ((1, 1, 2), (0, 1)), ((1, 1, 1), (0, 1, 2)))],
    ),
    "ReduceMax": (
        "g (float[N, M] x, int64[L] a) => (float[] z) { y = ReduceMax <keepdims = 0> (x, a) z = Exp (y) }",
        [{"x": f32(2, 3), "a": i64(*a)} for a in ((1,), (0, 1), (0,))],
    ),
    "GatherND": (
        "g (float[N, M] x, int64[A, L] j) => (float[] z) { y = GatherND (x, j) z = Exp (y) }",
        [{"x": f32(2, 3), "j": np.array(j)} for j in ([[1], [0]], [[1, 2]])],
    ),
}


@pytest.mark.parametrize("text, feeds", DECIDED.values(), ids=DECIDED)
def test_the_run_decides_a_rank_that_nothing_says(text, feeds, tmp_path, artifact_runner):
    opset = 18 if "Col2Im" in text or "ReduceMax" in text else 13
    against_onnx_runtime(opset, text, feeds, tmp_path, artifact_runner)


def test_a_longer_list_than_lengths_are_tried_is_an_error_of_the_run():
    library = byoc.compile(parsed(13, "g (float[N] x, int64[L] s) => (float[] y) { y = Reshape (x, s) }"))
    with pytest.raises(UserError, match="one has 8 elements"):
        library.run({"x": f32(6), "s": i64(6, 1, 1, 1, 1, 1, 1, 1)})


def test_a_length_that_too_much_depends_on_is_refused():
    """Each of two lists may have any length, and no graph has one rank."""
    text = """g (float[N] x, int64[K] a, int64[L] b) => (float[] y)
    { u = Reshape (x, a) v = Reshape (x, b) y = Add (u, v) }"""
    with pytest.raises(ImportModelError, match=r"node Reshape_\d .* the size of input 1, .* declare the output's rank"):
        byoc.compile(parsed(13, text))


def updated(batch, size, count, writes, axis=2):
    cache, update = [batch, 2, size, 3], [batch, 2, count, 3]
    if axis == 1:
        del cache[1], update[1]
    return {"c": f32(*cache), "u": f32(*update), "w": i64(*writes)}


UPDATES = [updated(1, 6, 2, [3]), updated(3, 7, 3, [0, 4, 2]), updated(2, 4, 4, [0, 0]), updated(2, 5, 1, [4, 0])]
AROUND = [updated(1, 6, 2, [5]), updated(3, 7, 3, [6, 4, 13]), updated(2, 4, 4, [3, 0])]


@pytest.mark.parametrize(
    "text, feeds",
    [
        (
            "g (float[N,2,S,3] c, float[N,2,U,3] u, int64[N] w) => (float[N,2,S,3] y) { y = TensorScatter (c, u, w) }",
            UPDATES,
        ),
        (
            """g (float[N, 2, S, 3] c, float[N, 2, U, 3] u, int64[N] w) => (float[N, 2, S, 3] y)
            { y = TensorScatter <mode = "circular"> (c, u, w) }""",
            AROUND,
        ),
        (
            """g (float[2, 2, S, 3] c, float[2, 2, 2, 3] u, int64[2] w) => (float[2, 2, S, 3] y)
            { y = TensorScatter <mode = "circular"> (c, u, w) }""",
            [updated(2, s, 2, [s - 1, 0]) for s in (2, 5)],
        ),
        (
            """g (float[N, 2, 6, 3] c, float[N, 2, U, 3] u, int64[N] w) => (float[N, 2, 6, 3] z)
            { y = TensorScatter (c, u, w) z = Neg (y) }""",
            [updated(n, 6, u, [6 - u] * n) for n, u in ((1, 6), (2, 3))],
        ),
        (
            """g (float[N, S, 3] c, float[N, U, 3] u, int64[N] w) => (float[N, S, 3] y)
            { y = TensorScatter <axis = 1> (c, u, w) }""",
            [updated(2, s, u, [0, s - u], 1) for s, u in ((2, 2), (6, 1))],
        ),
        (
            """g (float[N, 2, S, 3] c, float[N, 2, U, 3] u, int64[N] w) => (float[N, 2, S, 3] y)
            { y = TensorScatter (c, u) }""",
            UPDATES,
        ),
    ],
)
@pytest.mark.newer_onnxruntime
def test_a_cache_of_free_size_takes_updates(text, feeds, tmp_path, artifact_runner):
    against_onnx_runtime(24, text, feeds, tmp_path, artifact_runner)


@pytest.mark.parametrize("feed", [updated(2, 5, 3, [0, 3]), updated(1, 5, 3, [-1]), updated(1, 2, 3, [0])])
def test_an_update_that_does_not_fit_a_cache_of_free_size_is_an_error(feed):
    text = "g (float[N, 2, S, 3] c, float[N, 2, U, 3] u, int64[N] w) => (float[] y) {y = TensorScatter (c, u, w)}"
    library = byoc.compile(parsed(24, text))
    with pytest.raises(UserError, match=r"node TensorScatter_0 \(TensorScatter\)"):
        library.run(feed)


def transformed(dims, out, attrs="", inputs="x", **constants):
    fixed = ", ".join(f"int64 {name} = {{{value}}}" for name, value in constants.items())
    made = f"<{fixed}> " if fixed else ""
    attrs = f"<{attrs}> " if attrs else ""
    return f"g (float[{dims}] x) => (float[{out}] y) {made}{{ y = DFT {attrs}({inputs}) }}"


REAL, COMPLEX, BOTH = ([(2, s, p) for s in (4, 7) for p in parts] for parts in ((1,), (2,), (1, 2)))


@pytest.mark.parametrize(
    "opset, text, shapes",
    [
        (17, transformed("N, S, 1", "N, ?, 2", "onesided = 1"), REAL),
        (20, transformed("N, S, 1", "N, ?, 2", "onesided = 1"), [*REAL, (1, 1, 1)]),
        (20, transformed("N, S, T, 1", "?, S, T, 2", "onesided = 1", "x, , a", a=0), [(s, 2, 3, 1) for s in (4, 7)]),
        (20, transformed("N, S, 1", "N, 6, 2", inputs="x, n", n=6), [*REAL, (2, 6, 1)]),
        (20, transformed("N, S, 1", "N, 4, 2", "onesided = 1", "x, n", n=6), [*REAL, (2, 6, 1)]),
        (20, transformed("N, S, 2", "N, ?, 1", "onesided = 1, inverse = 1"), COMPLEX),
        (20, transformed("N, S, P", "N, S, 2"), BOTH),
        (20, transformed("N, S, P", "N, S, 2", "inverse = 1"), BOTH),
        (20, transformed("N, S, P", "N, ?, 2", "onesided = 1"), REAL),
        (20, transformed("N, S, P", "N, ?, 1", "onesided = 1, inverse = 1"), COMPLEX),
        (20, transformed("N, 8, P", "N, 8, 2"), [(n, 8, p) for n in (1, 2) for p in (1, 2)]),
    ],
)
def test_a_fourier_transform_takes_axes_of_free_size(opset, text, shapes, tmp_path, artifact_runner):
    against_onnx_runtime(opset, text, [{"x": f32(*shape)} for shape in shapes], tmp_path, artifact_runner)


def test_an_inverse_of_a_free_size_to_a_stated_length_is_that_of_numpy(tmp_path, artifact_runner):
    """ONNX Runtime takes another spectrum where it is not of that length."""
    text = transformed("N, S, 2", "N, 6, 1", "onesided = 1, inverse = 1", "x, n", n=6)
    library = byoc.compile(parsed(20, text))
    for size in (3, 4, 6):
        data = f32(2, size, 2)
        wanted = np.fft.irfft(data[..., 0] + 1j * data[..., 1], n=6, axis=1)
        np.testing.assert_allclose(library.run({"x": data})[0][..., 0], wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("parts", [0, 3])
def test_a_signal_of_other_parts_than_real_and_imaginary_is_an_error(parts):
    library = byoc.compile(parsed(20, transformed("N, S, P", "N, S, 2")))
    with pytest.raises(UserError, match=r"node DFT_0 \(DFT\): the last axis of the signal"):
        library.run({"x": f32(1, 4, parts)})


@pytest.mark.parametrize(
    "text, feeds",
    [
        (
            "g (float[N, S, 1] x, float[W] w) => (float[N, ?, ?, 2] y) <int64 step = {2}> { y = STFT (x, step, w) }",
            [{"x": f32(2, s, 1), "w": f32(w)} for s, w in ((12, 4), (13, 6))],
        ),
        (
            """g (float[N, S, P] x) => (float[N, ?, ?, 2] y) <int64 step = {2}, int64 length = {4}>
            { y = STFT <onesided = 0> (x, step, , length) }""",
            [{"x": f32(2, s, p)} for s, p in ((12, 1), (9, 2))],
        ),
        (
            """g (float[N, S, P] x, float[W] w) => (float[N, ?, ?, 2] y) <int64 step = {3}, int64 length = {4}>
            { y = STFT (x, step, w, length) }""",
            [{"x": f32(2, s, 1), "w": f32(4)} for s in (12, 9)],
        ),
    ],
)
def test_a_short_time_transform_takes_windows_and_parts_of_free_size(text, feeds, tmp_path, artifact_runner):
    against_onnx_runtime(17, text, feeds, tmp_path, artifact_runner)


def test_the_nonzero_places_of_a_scalar_are_those_of_one_row(tmp_path, artifact_runner):
    feeds = [{"x": np.array(value, "float32")} for value in (0, 3)]
    text = "g (float x) => (int64[?, ?] y) { y = NonZero (x) }"
    against_onnx_runtime(13, text, feeds, tmp_path, artifact_runner)


@pytest.mark.parametrize(
    "opset, text, feeds",
    [
        (
            19,
            """g (float[N, 3, S] x) => (float[N, 3, ?] y) <int64[6] p = {0, 0, 4, 0, 0, 1}>
            { y = Pad <mode = "wrap"> (x, p) }""",
            [{"x": f32(n, 3, s)} for n, s in ((1, 5), (2, 1))],
        ),
        (
            19,
            """g (float[N, 3, 4] x) => (float[N, 3, ?] y) <int64[6] p = {0, 0, 2, 0, 0, 1}>
            { y = Pad <mode = "wrap"> (x, p) }""",
            [{"x": f32(n, 3, 4)} for n in (1, 2)],
        ),
        (
            21,
            """g (float[N, K] x, float[N, M] s, int8[N, M] z) => (float[N, K] y) {
                q = QuantizeLinear <axis = 1, block_size = 4> (x, s, z)
                y = DequantizeLinear <axis = 1, block_size = 4> (q, s, z)
            }""",
            [{"x": f32(2, 4 * k), "s": np.abs(f32(2, k)) + 1, "z": np.ones((2, k), "int8")} for k in (1, 3)],
        ),
    ],
)
def test_axes_of_free_size_are_wrapped_and_quantised_in_blocks(opset, text, feeds, tmp_path, artifact_runner):
    against_onnx_runtime(opset, text, feeds, tmp_path, artifact_runner)
