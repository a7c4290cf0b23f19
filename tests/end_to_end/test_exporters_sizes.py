"""What PyTorch's exporter computes of sizes for architectures of ``transformers``, in the smallest models that have it.

Each once left part of a model on numpy kernels, or refused it, when its sizes were free. Compared with ONNX Runtime.
"""

import numpy as np
import onnx.parser
import pytest

import byoc

pytestmark = pytest.mark.needs_cc
onnxruntime = pytest.importorskip("onnxruntime")
HEAD = '<ir_version: 8, opset_import: ["" : 19]>\n'
NUMBERS = "int64[1] rest = {-1}, int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] four = {4}"

# Whisper: positions 0 ... S-1 repeated for each sequence of the batch
TILED = f"""g (int64[B, 5] x) => (float[] y) <float[5, 4] table, int64[1, 5] places = {{0, 1, 2, 3, 4}}, {NUMBERS}> {{
    b = Shape <end: int = 1> (x)
    often = Concat <axis: int = 0> (b, one)
    rows = Tile (places, often)
    found = Gather (table, rows)
    flat = Reshape (found, six)
    y = Relu (flat)
}}""".replace("int64[1] rest", "int64[3] six = {0, 5, 4}, int64[1] rest")

# wav2vec2: the length after two convolutions, computed once by their windows, once by ONNX's truncating Div
WINDOWS = f"""g (float[B, 1, T] x) => (float[] y) <float[4, 1, 5] w, float[4, 4, 3] v, int64 three0 = {{3}},
    int64 two0 = {{2}}, int64 one0 = {{1}}, int64 five0 = {{5}}, {NUMBERS}> {{
    a = Conv <strides: ints = [5]> (x, w)
    c = Conv <strides: ints = [2]> (a, v)
    t = Shape <start: int = 2, end: int = 3> (x)
    t0 = Squeeze (t)
    first = Div (t0, five0)
    less = Sub (first, three0)
    half = Div (less, two0)
    count = Add (half, one0)
    length = Reshape (count, rest)
    b = Shape <end: int = 1> (x)
    lengths = Concat <axis: int = 0> (b, length, rest, two)
    turned = Transpose <perm: ints = [0, 2, 1]> (c)
    heads = Reshape (turned, lengths)
    whole = Concat <axis: int = 0> (b, length, four)
    joined = Reshape (heads, whole)
    y = Relu (joined)
}}"""

# the same, beside positions 0 ... length-1
COUNTED = WINDOWS.replace("int64 three0", "int64 none = {0}, int64 three0").replace(
    "y = Relu (joined)",
    """z = Range (none, count, one0)
    p = Unsqueeze (z, one)
    q = Cast <to: int = 1> (p)
    y = Add (joined, q)""",
)

# GPT-2: (S*B)//B positions
QUOTIENT = f"""g (float[B, S, 4] x) => (float[] y) <int64 zero0 = {{0}}, int64 one0 = {{1}}, {NUMBERS}> {{
    s = Shape <start: int = 1, end: int = 2> (x)
    b = Shape <end: int = 1> (x)
    all = Mul (s, b)
    each = Div (all, b)
    count = Squeeze (each)
    places = Range (zero0, count, one0)
    column = Unsqueeze (places, one)
    numbers = Cast <to: int = 1> (column)
    sum = Add (x, numbers)
    joined = Concat <axis: int = 0> (b, s, two, rest)
    heads = Reshape (sum, joined)
    y = Relu (heads)
}}"""

# MPT: a bias of 16 positions, cut from max(16-S, 0) and from max(1-S, 0) on
ALIBI = f"""g (float[B, S, S] x) => (float[] y) <float[1, 16] bias, int64[1] sixteen = {{16}},
    int64[1] last = {{9223372036854775807}}, {NUMBERS}> {{
    s = Shape <start: int = 1, end: int = 2> (x)
    negative = Sub (sixteen, s)
    from = Max (negative, zero)
    minus = Sub (one, s)
    row = Max (minus, zero)
    rows = Slice (bias, row, last, zero, one)
    cut = Slice (rows, from, last, one, one)
    z = Add (x, cut)
    b = Shape <end: int = 1> (x)
    shape = Concat <axis: int = 0> (b, s, rest, one)
    split = Reshape (z, shape)
    y = Relu (split)
}}"""
# Parakeet: positions (T-1)//8 ... -(T-1)//8, downwards; and a square of a length
DOWNWARDS = f"""g (float[B, T] x) => (float[] y) <int64 one0 = {{1}}, int64 minus0 = {{-1}}, int64 eight0 = {{8}},
    int64 two0 = {{2}}, {NUMBERS}> {{
    t = Shape <start: int = 1, end: int = 2> (x)
    t0 = Squeeze (t)
    less = Sub (t0, one0)
    high = Div (less, eight0)
    more = Add (high, one0)
    low = Neg (more)
    places = Range (high, low, minus0)
    numbers = Cast <to: int = 1> (places)
    square = Pow (t0, two0)
    area = Reshape (square, rest)
    b = Shape <end: int = 1> (x)
    whole = Concat <axis: int = 0> (b, area, rest)
    column = Unsqueeze (x, two)
    beside = Unsqueeze (x, one)
    grid = Mul (column, beside)
    flat = Reshape (grid, whole)
    y = Add (flat, numbers)
}}"""

# Swin, LongT5: padded up to a multiple of 8 by a remainder, and cut into blocks of 8
BLOCKS = f"""g (float[B, T, 4] x) => (float[] y) <int64 eight0 = {{8}}, int64 minus0 = {{-1}},
    int64[5] zeros = {{0, 0, 0, 0, 0}}, int64[1] eight = {{8}}, {NUMBERS}> {{
    t = Shape <start: int = 1, end: int = 2> (x)
    t0 = Squeeze (t)
    less = Mul (t0, minus0)
    more = Mod (less, eight0)
    behind = Reshape (more, rest)
    before = Slice (zeros, zero, four)
    pads = Concat <axis: int = 0> (before, behind, zero)
    p = Pad (x, pads)
    b = Shape <end: int = 1> (x)
    shape = Concat <axis: int = 0> (b, rest, eight, four)
    blocks = Reshape (p, shape)
    y = Relu (blocks)
}}"""

# SwiftFormer: a row repeated for each of ((H-1)//4 + 1) * ((W-1)//4 + 1) patches
PATCHES = f"""g (float[B, 3, H, W] x) => (float[] y) <float[6, 3, 3, 3] w, float[6, 6, 3, 3] v, float[1, 1, 6] row,
    int64 one0 = {{1}}, int64 four0 = {{4}}, int64[1] six = {{6}}, {NUMBERS}> {{
    a = Conv <strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (x, w)
    c = Conv <strides: ints = [2, 2], pads: ints = [1, 1, 1, 1]> (a, v)
    h = Shape <start: int = 2, end: int = 3> (x)
    w1 = Shape <start: int = 3, end: int = 4> (x)
    h1 = Sub (h, one)
    h4 = Div (h1, four0)
    high = Add (h4, one)
    w2 = Sub (w1, one)
    w4 = Div (w2, four0)
    wide = Add (w4, one)
    area = Mul (high, wide)
    often = Concat <axis: int = 0> (one, area, one)
    rows = Tile (row, often)
    b = Shape <end: int = 1> (x)
    flat = Concat <axis: int = 0> (b, six, rest)
    d = Reshape (c, flat)
    e = Transpose <perm: ints = [0, 2, 1]> (d)
    f = Add (e, rows)
    back = Concat <axis: int = 0> (b, high, wide, rest)
    y0 = Reshape (f, back)
    y = Relu (y0)
}}"""

# DPT, YOLO: an image made half or twice as large
HALVED = f"""g (float[B, 2, H, W] x) => (float[] y) <float[4] factors = {{1.0, 1.0, 0.5, 2.0}}, {NUMBERS}> {{
    a = Resize <mode: string = "linear"> (x, , factors)
    s = Shape (x)
    c = Resize <mode: string = "nearest"> (a, , , s)
    y = Add (c, x)
}}"""

# Moonshine: 18*N - 18 elements in 18 rows
ROWS = f"""g (float[B, N] x) => (float[] y) <int64[2] often = {{1, 18}}, int64[3] rows = {{0, 18, -1}},
    int64[1] last = {{9223372036854775807}}, {NUMBERS}> {{
    cut = Slice (x, one, last, one)
    many = Tile (cut, often)
    turned = Reshape (many, rows)
    y = Relu (turned)
}}"""

# windows of an image behind one another and back: a product of differences of sizes divided by another
WINDOWED = f"""g (float[B, H, W, 4] x) => (float[] y) <int64[1] last = {{9223372036854775807}}, {NUMBERS}> {{
    cut = Slice (x, one, last, one)
    whole = Slice (cut, one, last, two)
    s = Shape <start: int = 1, end: int = 3> (whole)
    b = Shape <end: int = 1> (x)
    many = Concat <axis: int = 0> (rest, four)
    flat = Reshape (whole, many)
    e = Exp (flat)
    shape = Concat <axis: int = 0> (rest, s, four)
    y0 = Reshape (e, shape)
    y = Add (y0, whole)
}}"""

# DINOv3: the middles of patches 0.5 ... H-0.5; 5 tokens of another kind, split off by the sizes of both kinds
MIDDLES = f"""g (float[B, T, 4] x) => (float[] y) <float half = {{0.5}}, float one0 = {{1.0}}, int64[1] five = {{5}},
    int64[1] last = {{9223372036854775807}}, float[1, 5, 4] first, {NUMBERS}> {{
    b = Shape <end: int = 1> (x)
    spread = Concat <axis: int = 0> (b, one, one)
    begun = Expand (first, spread)
    both = Concat <axis: int = 1> (begun, x)
    t = Shape <start: int = 1, end: int = 2> (x)
    t0 = Squeeze (t)
    count = Cast <to: int = 1> (t0)
    middles = Range (half, count, one0)
    column = Unsqueeze (middles, one)
    sizes = Concat <axis: int = 0> (five, t)
    a, c = Split <axis: int = 1> (both, sizes)
    moved = Mul (c, column)
    again = Concat <axis: int = 1> (a, moved)
    y = Relu (again)
}}"""
MODELS = {
    "tiled": (TILED, [(1, 5), (3, 5)]),
    "windows": (WINDOWS, [(2, 1, 30), (1, 1, 47), (3, 1, 15)]),
    "counted": (COUNTED, [(2, 1, 30), (1, 1, 47), (3, 1, 15)]),
    "quotient": (QUOTIENT, [(2, 3, 4), (3, 7, 4), (1, 1, 4)]),
    "downwards": (DOWNWARDS, [(2, 9), (1, 1), (3, 20)]),
    "blocks": (BLOCKS, [(2, 5, 4), (1, 16, 4), (3, 23, 4)]),
    "patches": (PATCHES, [(2, 3, 8, 9), (1, 3, 13, 5), (1, 3, 1, 2)]),
    "halved": (HALVED, [(1, 2, 8, 6), (2, 2, 7, 5)]),
    "rows": (ROWS, [(2, 4), (1, 2), (3, 9)]),
    "middles": (MIDDLES, [(2, 3, 4), (1, 1, 4), (3, 8, 4)]),
    "windowed": (WINDOWED, [(2, 3, 4, 4), (1, 2, 2, 4)]),
    "alibi": (ALIBI, [(2, 3, 3), (1, 16, 16), (3, 1, 1)]),
}


def model_of(text):
    """The model of a text, its tables of floats seeded."""
    rng = np.random.default_rng(3)
    model = onnx.parser.parse_model(HEAD + text)
    for value in [v for v in model.graph.value_info if v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT]:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        weights = rng.normal(0, 0.3, shape).astype("float32")
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, value.name))
    return model


def feed_of(model, shape):
    kind = onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[0].type.tensor_type.elem_type)
    return {"x": np.random.default_rng(5).normal(0, 1, shape).astype(kind)}


@pytest.mark.parametrize("name", MODELS)
def test_sizes_that_a_model_computes_are_known_by_name(name):
    text, shapes = MODELS[name]
    model = model_of(text)
    library = byoc.compile(model, ["c"])
    slow = {why.split(" (")[0] for why in library.report["host_fallbacks"].values()}
    assert slow <= {"dyn.split_bounds has no tensor expression"} and "control_flow" not in library.report, slow
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feed in (feed_of(model, shape) for shape in shapes):
        (got,), (want,) = library.run(feed), session.run(None, feed)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_a_function_is_given_the_sizes_that_its_inputs_do_not_determine(tmp_path, artifact_runner):
    """In a part (NonZero's size is known only afterwards), a function sees H//4, W//4 and needs their product."""
    text = f"""g (float[B, 3, H, W] x) => (float[] y, int64[] found)
    <float[6, 3, 4, 4] w, float[1, 1, 6] first, {NUMBERS}> {{
        a = Conv <strides: ints = [4, 4]> (x, w)
        b = Shape <end: int = 1> (x)
        flat = Concat <axis: int = 0> (b, six, rest)
        c = Reshape (a, flat)
        d = Transpose <perm: ints = [0, 2, 1]> (c)
        shape = Concat <axis: int = 0> (b, one, one)
        e = Expand (first, shape)
        f = Concat <axis: int = 1> (e, d)
        y = Add (f, table)
        found = NonZero (y)
    }}""".replace("int64[1] rest", "int64[1] six = {6}, float[1, 5, 6] table, int64[1] rest")
    model = model_of(text)
    library = byoc.compile(model, ["c"])
    assert "control_flow" in library.report and "node_by_node" not in library.report
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = [feed_of(model, (2, 3, 8, 8)), feed_of(model, (1, 3, 4, 16))]
    loaded = artifact_runner.run(library.save(tmp_path / "m.byoc"), feeds)
    for feed, again in zip(feeds, loaded, strict=True):
        for got, other, want in zip(library.run(feed), again, session.run(None, feed), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(got, other)
