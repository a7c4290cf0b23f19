"""Models whose sizes are free, as people export them: one compiled artefact, generated code throughout, every size.

Each is compared with ONNX Runtime, in process and from its artefact in another process. What their graphs compute of
shapes is what PyTorch's exporter writes: slices of a table up to the sequence's length, reshapes to computed shapes,
positions by Range, masks by Expand.
"""

import numpy as np
import onnx.parser
import pytest

import byoc
from byoc.errors import UserError

pytestmark = pytest.mark.needs_cc
onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 19]>\n'
SHAPES = """
    int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64 zero0 = {0}, int64 one0 = {1},
    int64[1] heads = {4}, int64[1] width = {8}, int64[1] rest = {-1}, int64[1] all = {32}"""

ATTENTION = f"""g (float[B, S, 32] x) => (float[] y)
    <float[1, 16, 32] table, float[32, 32] w, float scale = {{0.35}},{SHAPES}> {{
    b = Shape <start: int = 0, end: int = 1> (x)
    s = Shape <start: int = 1, end: int = 2> (x)
    positions = Slice (table, zero, s, one)
    embedded = Add (x, positions)
    q = MatMul (embedded, w)
    split = Concat <axis: int = 0> (b, s, rest, width)
    q4 = Reshape (q, split)
    qt = Transpose <perm: ints = [0, 2, 1, 3]> (q4)
    joined = Concat <axis: int = 0> (rest, s, width)
    flat = Reshape (qt, joined)
    keys = Transpose <perm: ints = [0, 2, 1]> (flat)
    back = Concat <axis: int = 0> (b, rest, width, s)
    k4 = Reshape (keys, back)
    scores = MatMul (qt, k4)
    scaled = Mul (scores, scale)
    s0 = Squeeze (s, zero)
    place = Range (zero0, s0, one0)
    rows = Unsqueeze (place, one)
    causal = GreaterOrEqual (rows, place)
    four = Concat <axis: int = 0> (b, one, s, s)
    mask = Expand (causal, four)
    low = Constant <value_float: float = -10000.0> ()
    none = Constant <value_float: float = 0.0> ()
    added = Where (mask, none, low)
    masked = Add (scaled, added)
    weights = Softmax <axis: int = -1> (masked)
    mixed = MatMul (weights, qt)
    turned = Transpose <perm: ints = [0, 2, 1, 3]> (mixed)
    whole = Concat <axis: int = 0> (b, s, all)
    y = Reshape (turned, whole)
}}"""
SHIFTED = f"""g (float[B, S, 8] x) => (float[] y) <{SHAPES}> {{
    s = Shape <start: int = 1, end: int = 2> (x)
    last = Sub (s, one)
    front = Slice (x, zero, last, one)
    first = Slice (x, zero, one, one)
    right = Concat <axis: int = 1> (first, front)
    y = Sub (x, right)
}}"""
RESIDUAL = """g (float[B, 3, H, W] x) => (float[] y) <float[4, 3, 3, 3] w, float[4, 3, 1, 1] v, float[4, 4, 3, 3] u> {
    a = Conv <strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x, w)
    b = Conv <strides: ints = [2, 2]> (x, v)
    c = Add (a, b)
    d = Relu (c)
    e = MaxPool <kernel_shape: ints = [3, 3], strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (d)
    f = Conv <pads: ints = [1, 1, 1, 1]> (e, u)
    h = AveragePool <kernel_shape: ints = [2, 2], strides: ints = [2, 2], ceil_mode: int = 1> (f)
    y = Flatten (h)
}"""
CACHED = f"""g (float[B, S, 8] x, float[B, P, 8] past) => (float[] y, float[] present) <{SHAPES}> {{
    present = Concat <axis: int = 1> (past, x)
    turned = Transpose <perm: ints = [0, 2, 1]> (present)
    scores = MatMul (x, turned)
    weights = Softmax <axis: int = -1> (scores)
    y = MatMul (weights, present)
}}"""
BATCHES = f"""g (float[B, S, 8] x) => (float[] y)
    <float[8, 6] w, int64[2] flat = {{-1, 8}}, int64[1] six = {{6}},{SHAPES}> {{
    rows = Reshape (x, flat)
    z = MatMul (rows, w)
    b = Shape <start: int = 0, end: int = 1> (x)
    s = Shape <start: int = 1, end: int = 2> (x)
    shape = Concat <axis: int = 0> (b, s, six)
    cube = Reshape (z, shape)
    ones = Concat <axis: int = 0> (one, two, one)
    tiled = Tile (cube, ones)
    y = ReduceMean <keepdims: int = 0> (tiled, two)
}}"""
WINDOWS = f"""g (float[B, H, 3] x) => (float[] y)
    <int64 four = {{4}}, int64 last = {{-1}}, int64[1] three = {{3}}, int64[1] wide = {{4}}, int64[1] away = {{-2}},
     int64[1] far = {{4611686018427387904}}, int64[1] flat = {{12}}, int64[2] pairwise = {{-1, 2}},{SHAPES}> {{
    b = Shape <start: int = 0, end: int = 1> (x)
    h = Shape <start: int = 1, end: int = 2> (x)
    over = Mod (h, four)
    lacking = Sub (four, over)
    more = Mod (lacking, four)
    pads = Concat <axis: int = 0> (zero, zero, zero, more, zero, zero)
    pairs = Reshape (pads, pairwise)
    turned = Transpose <perm: ints = [1, 0]> (pairs)
    listed = Reshape (turned, rest)
    padded = Pad (x, listed)
    back = Slice (padded, away, far, one)
    front = Slice (padded, zero, away, one)
    rolled = Concat <axis: int = 1> (back, front)
    whole = Add (h, more)
    count = Div (whole, wide)
    split = Concat <axis: int = 0> (b, count, wide, three)
    windows = Reshape (rolled, split)
    lengths = Shape (windows)
    size = Slice (lengths, one, two)
    square = Concat <axis: int = 0> (size, size)
    plain = ConstantOfShape (square)
    eye = EyeLike <dtype: int = 1, k: int = 1> (plain)
    rows = Concat <axis: int = 0> (b, count, flat)
    joined = Reshape (windows, rows)
    y = MatMul (eye, joined)
}}"""
MODELS = {
    "windows": (WINDOWS, [{"x": (b, h, 3)} for b, h in ((1, 1), (2, 6), (1, 8), (3, 33))]),
    "no windows": (WINDOWS, [{"x": (b, h, 3)} for b, h in ((2, 6), (0, 4), (1, 8))]),
    "attention": (ATTENTION, [{"x": (b, s, 32)} for b, s in ((1, 1), (2, 5), (3, 16), (1, 16))]),
    "shifted": (SHIFTED, [{"x": (b, s, 8)} for b, s in ((1, 1), (2, 2), (3, 7))]),
    "residual": (RESIDUAL, [{"x": (b, 3, h, w)} for b, h, w in ((1, 16, 16), (2, 15, 18), (1, 9, 33), (3, 8, 7))]),
    "cached": (CACHED, [{"x": (b, s, 8), "past": (b, p, 8)} for b, s, p in ((1, 1, 0), (2, 1, 5), (1, 4, 3))]),
    "batches": (BATCHES, [{"x": (b, s, 8)} for b, s in ((1, 1), (4, 3), (2, 9))]),
}
NEWER = {"no windows"}
"""ONNX Runtime 1.23 does not multiply a matrix by none of a batch, which the next does, and ONNX's reference."""


def model_of(name):
    """The model, its weights seeded."""
    rng = np.random.default_rng(3)
    model = onnx.parser.parse_model(HEAD + MODELS[name][0])
    for tensor in model.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT and not (tensor.float_data or tensor.raw_data):
            tensor.raw_data = rng.normal(0, 0.3, tuple(tensor.dims)).astype("float32").tobytes()
    for value in [v for v in model.graph.value_info if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT]:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        model.graph.initializer.append(
            onnx.numpy_helper.from_array(rng.normal(0, 0.3, shape).astype("float32"), value.name)
        )
    return model


def feeds_of(name):
    rng = np.random.default_rng(5)
    return [{k: rng.normal(0, 1, s).astype("float32") for k, s in shapes.items()} for shapes in MODELS[name][1]]


@pytest.mark.parametrize("targets", [["c"], ["json", "c"], ["opencl", "c"]], ids="-".join)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.newer_onnxruntime if name in NEWER else ()) for name in MODELS]
)
def test_one_artefact_is_right_for_every_size_and_nothing_is_on_numpy_kernels(name, targets, artifact_runner, tmp_path):
    if targets[0] == "opencl" and byoc.contract.get_backend("opencl").unavailable():
        pytest.skip("no OpenCL device")
    model = model_of(name)
    library = byoc.compile(model, targets)
    assert library.report["host_fallbacks"] == {}, library.report["host_fallbacks"]
    assert targets != ["c"] or "node_by_node" not in library.report, library.report["node_by_node"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = feeds_of(name)
    wanted = [session.run(None, feed) for feed in feeds]
    loaded = artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)
    for k in (*range(len(feeds)), 0):  # and sizes that come again
        for got in (library.run(feeds[k]), loaded[k]):
            for a, b in zip(got, wanted[k], strict=True):
                assert a.shape == b.shape
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("targets", [["c"], ["json", "c"], ["opencl", "c"]], ids="-".join)
@pytest.mark.parametrize(
    "text, right, wrong",
    [
        (
            "g (float[N] x, float[M] y) => (float[] z) { z = Add (x, y) }",
            [(3, 3), (1, 3), (3, 1), (0, 0), (0, 1), (1, 0)],
            [(3, 2), (2, 3), (0, 3), (3, 0)],
        ),
        (
            "g (float[N] x) => (float[] z) <float[5] w = {1, 2, 3, 4, 5}> { z = Add (x, w) }",
            [(5,), (1,)],
            [(3,), (7,)],
        ),
    ],
)
def test_sizes_that_do_not_fit_are_refused_and_no_numbers_come(text, right, wrong, targets):
    """A tensor of 3 beside one of 5 once gave 5 numbers, the third of them for the last three."""
    if targets[0] == "opencl" and byoc.contract.get_backend("opencl").unavailable():
        pytest.skip("no OpenCL device")
    library = byoc.compile(onnx.parser.parse_model(HEAD + text), targets)
    names = [s.name for s in library.inputs]
    for sizes in right:
        feeds = {n: np.arange(1, k + 1, dtype="float32") for n, k in zip(names, sizes, strict=True)}
        want = sum(feeds.values()) + (np.arange(1, 6) if len(names) == 1 else 0)
        np.testing.assert_array_equal(library.run(feeds)[0], want.astype("float32"))
    for sizes in wrong:
        with pytest.raises(UserError, match=r"the sizes .* differ|do not broadcast"):
            library.run({n: np.zeros(k, "float32") for n, k in zip(names, sizes, strict=True)})


def test_a_table_that_is_too_short_is_an_error_of_the_run():
    library = byoc.compile(model_of("attention"), ["c"])
    with pytest.raises(UserError, match=r"the sizes \(min\(16,S\)\) and S of two tensors that belong together differ"):
        library.run({"x": np.zeros((1, 17, 32), "float32")})
    assert library.run({"x": np.zeros((1, 3, 32), "float32")})[0].shape == (1, 3, 32)


def test_the_sizes_of_outputs_say_what_they_follow_from():
    library = byoc.compile(model_of("cached"), ["c"])
    assert [s.shape for s in library.outputs] == [("B", "S", 8), ("B", "(P+S)", 8)]


@pytest.mark.parametrize("name, total", [("P + S", "(P+S)"), ("total", "total")])
def test_a_name_that_computes_a_size_of_others_is_that_size(name, total):
    """As exporters name the length of a mask over what is kept and what is new."""
    model = onnx.parser.parse_model(
        HEAD
        + """g (float[B, S, 8] x, float[B, P, 8] past, float[B, T] mask) => (float[] y) <int64[1] two = {2}> {
            all = Concat <axis: int = 1> (past, x)
            wide = Unsqueeze (mask, two)
            y = Mul (all, wide)
        }"""
    )
    model.graph.input[2].type.tensor_type.shape.dim[1].dim_param = name
    library = byoc.compile(model, ["c"])
    assert library.inputs[2].shape == ("B", total)
    assert library.outputs[0].shape == ("B", "(P+S)" if total != "total" else "(broadcast(P+S,total))", 8)
    feeds = {"x": np.ones((2, 3, 8)), "past": np.full((2, 4, 8), 2), "mask": np.arange(14).reshape(2, 7)}
    (y,) = library.run({k: v.astype("float32") for k, v in feeds.items()})
    assert y.shape == (2, 7, 8) and y[0, 1, 0] == 2 and y[1, 6, 0] == 13
    with pytest.raises(UserError, match=r"input 'mask': expected shape \[B, \(P\+S\)\] with|the sizes .* differ"):
        library.run({k: v.astype("float32") for k, v in {**feeds, "mask": np.ones((2, 6))}.items()})


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("opset", [11, 13])
def test_the_greatest_along_an_axis_of_free_size_is_onnx_runtimes(opset, axis, artifact_runner, tmp_path):
    body = f"{{ h = Hardmax <axis: int = {axis}> (x) y = Relu (h) }}"
    model = onnx.parser.parse_model(HEAD.replace("19", str(opset)) + f"g (float[A, B, C] x) => (float[] y) {body}")
    path = byoc.compile(model).save(tmp_path / "m.byoc")
    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal(s).astype("float32")} for s in ((2, 3, 4), (1, 5, 2))]
    feeds.append({"x": np.ones((2, 2, 3), "float32")})  # the first of equals
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed, (found,) in zip(feeds, artifact_runner.run(path, feeds), strict=True):
        np.testing.assert_array_equal(found, session.run(None, feed)[0])
