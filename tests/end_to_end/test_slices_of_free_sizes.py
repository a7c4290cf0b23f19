"""Slices of axes whose size is free: every kind of bounds, at sizes from none on, as generated code.

Each is compared with ONNX Runtime, in process and from its artefact in another process.
"""

import numpy as np
import onnx.parser
import pytest

import byoc

pytestmark = pytest.mark.needs_cc
onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
FAR = 2**62
BOUNDS = [
    (1, FAR, 1),
    (2, FAR, 1),
    (0, -1, 1),
    (1, -1, 1),
    (-3, FAR, 1),
    (-3, -1, 1),
    (-3, 2, 1),
    (2, 5, 1),
    (0, FAR, 2),
    (1, FAR, 2),
    (-3, FAR, 2),
    (1, -2, 3),
    (-1, -FAR, -1),
    (FAR, -FAR, -1),
    (FAR, -FAR, -2),
    (5, 0, -1),
    (5, -3, -2),
    (-1, -4, -1),
]
SIZES = (0, 1, 2, 3, 4, 9)
SHIFTED = """g (float[B, S, 4] x, float[B, 1, 4] first) => (float[] y)
    <int64[1] one = {1}, int64[1] zero = {0}, int64[1] far = {4611686018427387904}> {
    rest = Slice (x, one, far, one)
    joined = Concat <axis: int = 1> (first, rest)
    y = Mul (joined, x)
}"""
PADDED = """g (float[B, S, 4] x) => (float[] y)
    <int64[1] one = {1}, int64[1] zero = {0}, int64[1] last = {-1}, int64[6] pads = {0, 1, 0, 0, 0, 0}> {
    front = Slice (x, zero, last, one)
    shifted = Pad (front, pads)
    y = Sub (x, shifted)
}"""


def sliced(start, end, step):
    return onnx.parser.parse_model(
        HEAD
        + f"""g (float[N, 3] x) => (float[] y)
            <int64[1] start = {{{start}}}, int64[1] end = {{{end}}}, int64[1] axis = {{0}}, int64[1] by = {{{step}}}> {{
            part = Slice (x, start, end, axis, by)
            y = Exp (part)
        }}"""
    )


def assert_like_onnx_runtime(model, feeds, loaded=None, generated=True, targets=("c",)):
    """*loaded* runs a saved library in another process."""
    library = byoc.compile(model, list(targets))
    if generated:
        assert library.report["host_fallbacks"] == {}
        assert targets != ("c",) or "node_by_node" not in library.report, library.report["node_by_node"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    ran = [None] * len(feeds) if loaded is None else loaded(library, feeds)
    for feed, other in zip(feeds, ran, strict=True):
        expected = session.run(None, feed)
        for outputs in (library.run(feed), *([] if other is None else [other])):
            for got, want in zip(outputs, expected, strict=True):
                assert got.shape == want.shape
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("bounds", BOUNDS, ids=str)
def test_a_slice_is_generated_code_for_every_size(bounds):
    rng = np.random.default_rng(1)
    assert_like_onnx_runtime(sliced(*bounds), [{"x": rng.random((n, 3), "float32")} for n in SIZES])


@pytest.mark.parametrize("bounds", [(-2, -FAR, -1), (-4, -FAR, -2)], ids=str)
def test_a_start_before_the_data_is_its_first_element_for_a_negative_step(bounds):
    """Slice-10 clamps it so, other than Python does."""
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.random((n, 3), "float32")} for n in SIZES]
    assert_like_onnx_runtime(sliced(*bounds), feeds, generated=False)


@pytest.mark.parametrize("targets", [("c",), ("opencl", "c")], ids="-".join)
@pytest.mark.parametrize("text", [SHIFTED, PADDED], ids=["shifted", "padded"])
def test_what_is_as_long_as_the_data_again_is_computed_with_it(text, targets, artifact_runner, tmp_path):
    """Of no elements, one that was added is broadcast to none."""
    if targets[0] == "opencl" and byoc.contract.get_backend("opencl").unavailable():
        pytest.skip("no OpenCL device")
    rng = np.random.default_rng(1)
    model = onnx.parser.parse_model(HEAD + text)
    feeds = [{"x": rng.random((2, n, 4), "float32"), "first": rng.random((2, 1, 4), "float32")} for n in SIZES]
    feeds = [{i.name: feed[i.name] for i in model.graph.input} for feed in feeds]

    def in_another_process(library, feeds):
        return artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)

    assert_like_onnx_runtime(model, feeds, in_another_process, targets=targets)


COMPUTED = """g (float[B, S, 4] x, float[B, M, 4] z) => (float[] y)
    <int64[1] by = {BY}, int64[1] start = {START}, int64[1] one = {1}, int64[1] step = {STEP}> {
    size = Shape <start: int = 1, end: int = 2> (x)
    end = Add (size, by)
    part = Slice (OF, start, end, one, step)
    y = Exp (part)
}"""


@pytest.mark.parametrize(
    "targets, of",
    [
        pytest.param(("c",), "x", id="c-x"),
        pytest.param(("c",), "z", id="c-z"),
        pytest.param(("opencl", "c"), "x", marks=pytest.mark.slow, id="opencl-c-x"),
        pytest.param(("opencl", "c"), "z", id="opencl-c-z"),
    ],
)
@pytest.mark.parametrize("start, by, step", [(0, -1, 1), (0, -3, 1), (1, -2, 1), (0, -3, 2), (0, 2, 1)], ids=str)
def test_an_end_less_than_the_size_counts_from_the_end_where_it_is_negative(
    start, by, step, of, targets, artifact_runner, tmp_path
):
    """``x[:S-3]`` is ``x[:-1]`` of two elements, and nothing of one."""
    if targets[0] == "opencl" and byoc.contract.get_backend("opencl").unavailable():
        pytest.skip("no OpenCL device")
    rng = np.random.default_rng(1)
    text = COMPUTED.replace("BY", str(by)).replace("START", str(start)).replace("STEP", str(step)).replace("OF", of)
    pairs = [(n, m) for n in SIZES for m in ((0, 2, 5) if of == "z" else (1,))]
    feeds = [{"x": rng.random((2, n, 4), "float32"), "z": rng.random((2, m, 4), "float32")} for n, m in pairs]
    in_another_process = lambda library, feeds: artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)  # noqa: E731
    assert_like_onnx_runtime(onnx.parser.parse_model(HEAD + text), feeds, in_another_process, targets=targets)


def test_an_end_less_than_the_size_holds_in_a_loop(artifact_runner, tmp_path):
    """Each run drops the last element, until there is none."""
    model = onnx.parser.parse_model(
        HEAD
        + """g (float[N, S] x, int64 n) => (float[] y) <bool going = {1}> {
            y = Loop (n, going, x) <body = b (int64 i, bool c, float[N, S] v) => (bool d, float[N, W] w)
                <int64[1] less = {-1}, int64[1] zero = {0}, int64[1] one = {1}> {
                d = Identity (c)
                size = Shape <start: int = 1, end: int = 2> (v)
                end = Add (size, less)
                w = Slice (v, zero, end, one)
            }>
        }"""
    )
    rng = np.random.default_rng(1)
    feeds = [{"x": rng.random((2, s), "float32"), "n": np.array(n)} for s in (0, 1, 4) for n in (0, 1, 2, 6)]
    in_another_process = lambda library, feeds: artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)  # noqa: E731
    assert_like_onnx_runtime(model, feeds, in_another_process, generated=False)


def test_how_many_bounds_there_are_may_be_known_only_when_it_runs(artifact_runner, tmp_path):
    """As PyTorch's exporter writes an EmbeddingBag: bounds are slices themselves, and a condition has their size."""
    model = onnx.parser.parse_model(
        HEAD
        + """g (float[N, 3] x, int64[K] bounds, int64[1] k) => (float[] y, float[] z)
            <int64[1] one = {1}, int64[1] two = {2}, int64 none = {0}, int64[1] front = {0}> {
            next = Add (k, one)
            last = Add (k, two)
            start = Slice (bounds, k, next)
            end = Slice (bounds, next, last)
            y = Slice (x, start, end)
            w = Slice (x, start, end, front, one)
            some = Greater (end, none)
            z = If (some) <
                then_branch = t () => (float[] a) { a = Exp (w) },
                else_branch = e () => (float[] b) { b = Identity (x) }>
        }"""
    )
    rng = np.random.default_rng(1)
    feeds = [
        {"x": rng.random((n, 3), "float32"), "bounds": np.array(bounds), "k": np.array([k])}
        for n, bounds, k in [(7, [0, 2, 5], 0), (7, [0, 2, 5], 1), (4, [1, 9, 0], 0), (4, [3, 1, 0], 1), (4, [0, 0], 0)]
    ]
    in_another_process = lambda library, feeds: artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)  # noqa: E731
    assert_like_onnx_runtime(model, feeds, in_another_process, generated=False)
