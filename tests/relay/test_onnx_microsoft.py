"""Operators of ONNX Runtime's own domain against ONNX Runtime, one node each, with fixed and with free sizes."""

import numpy as np
import onnxruntime
import pytest
from onnx_single_node import assert_like_onnx_runtime, feeds_of, single_node

import byoc
from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx

RNG = np.random.default_rng(3)
B, S, P, HEADS, SIZE = 2, 3, 4, 4, 8
HIDDEN = HEADS * SIZE


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype("float32")


def i32(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int32")


def i64(*numbers: int) -> np.ndarray:
    return np.array(numbers, "int64")


def check(op: str, inputs: list, constants: list = (), outputs: int = 1, domain: str = "com.microsoft", **attrs):
    model = single_node(op, 1, inputs, constants, outputs, domain, **attrs)
    assert_like_onnx_runtime(model, feeds_of(inputs), rtol=2e-5, atol=2e-5)


QUERY, KEY, VALUE = f32(B, S, HIDDEN), f32(B, 5, HIDDEN), f32(B, 5, 2 * HIDDEN)
PAST = [f32(B, HEADS, P, SIZE), f32(B, HEADS, P, SIZE)]
MULTI_HEAD = {
    "self": [QUERY, f32(B, S, HIDDEN), f32(B, S, HIDDEN)],
    "cross": [QUERY, KEY, VALUE],
    "bias": [QUERY, KEY, VALUE, f32(4 * HIDDEN)],
    "mask of keys": [QUERY, KEY, VALUE, None, np.array([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1]], "int32")],
    "ends": [QUERY, KEY, VALUE, None, i32(3, 5)],
    "mask of pairs": [QUERY, KEY, VALUE, None, RNG.integers(0, 2, (B, S, 5)).astype("int32")],
    "added": [QUERY, KEY, VALUE, None, None, f32(1, HEADS, S, 5)],
    "added by batches": [QUERY, KEY, VALUE, None, None, f32(B, 1, S, 5)],
    "keys by heads": [QUERY, f32(B, HEADS, 5, SIZE), f32(B, HEADS, 5, SIZE), f32(3 * HIDDEN)],
    "past": [QUERY, f32(B, S, HIDDEN), f32(B, S, HIDDEN), f32(3 * HIDDEN), None, None, *PAST],
    "past and mask": [QUERY, QUERY, QUERY, None, np.array([[0] + [1] * 6, [1] * 7], "int32"), None, *PAST],
}


@pytest.mark.parametrize("form", MULTI_HEAD)
def test_multi_head_attention_is_onnx_runtimes(form):
    outputs = 3 if "past" in form else 1
    check("MultiHeadAttention", MULTI_HEAD[form], outputs=outputs, num_heads=HEADS)


@pytest.mark.parametrize("form", ["self", "past", "past and mask"])
def test_later_keys_count_for_nothing(form):
    """Where there are as many new keys as queries; ONNX Runtime lets the last of fewer queries see all keys."""
    check("MultiHeadAttention", MULTI_HEAD[form], outputs=3, num_heads=HEADS, unidirectional=1)


def test_multi_head_attention_has_a_scale_a_filter_and_gives_its_weights():
    given = MULTI_HEAD["mask of keys"]
    check("MultiHeadAttention", given, num_heads=HEADS, scale=0.3, mask_filter_value=-2.0)


ONE = [f32(B, 1, HIDDEN) for _ in range(3)]
BUFFER = {"past_present_share_buffer": 1}
DECODER = {
    "cross": [ONE[0], f32(B, HEADS, 6, SIZE), f32(B, HEADS, 6, SIZE)],
    "cross with a mask": [
        ONE[0],
        f32(B, HEADS, 6, SIZE),
        f32(B, HEADS, 6, SIZE),
        np.array([[1, 0, 1, 1, 0, 1], [1] * 6], "int32"),
    ],
    "buffer": [*ONE, None, None, *PAST, i32(2)],
    "mask": [*ONE, np.array([[0, 1, 1], [1, 1, 1]], "int32"), None, *PAST, i32(2)],
    "bias": [*ONE, None, f32(1, HEADS, 1, 3), *PAST, i32(2), None, None, f32(3 * HIDDEN)],
}


@pytest.mark.parametrize("form", DECODER)
def test_attention_of_one_token_is_onnx_runtimes(form):
    outputs, shared = (1, {}) if "cross" in form else (3, BUFFER)
    check("DecoderMaskedMultiHeadAttention", DECODER[form], outputs=outputs, num_heads=HEADS, **shared)


def tables(positions: int = 16, half: int = SIZE // 2) -> list[np.ndarray]:
    angles = np.arange(positions)[:, None] / 10.0 ** (np.arange(half) / half)
    return [np.cos(angles).astype("float32"), np.sin(angles).astype("float32")]


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", [i64(2), np.array([[0, 1, 2], [5, 3, 9]], "int64")], ids=["first", "each"])
@pytest.mark.parametrize("form", ["rows", "heads", "part"])
def test_rotary_embedding_is_onnx_runtimes(form, positions, interleaved):
    data = f32(B, HEADS, S, SIZE) if form == "heads" else f32(B, S, HIDDEN)
    partial = {"num_heads": HEADS, "rotary_embedding_dim": 4} if form == "part" else {}
    half = 2 if form == "part" else SIZE // 2
    check("RotaryEmbedding", [data, positions], tables(half=half), interleaved=interleaved, **partial)


KV, WIDE = 2, 16  # rotary embeddings of heads turn 16 numbers or a multiple


def grouped(form: str, queries: int, rows: int, tokens: list[int], packed: bool = False) -> list:
    """The inputs of a step: new rows, a past of *rows*, and how many tokens each sequence then has."""
    parts = [f32(len(tokens), queries, heads * WIDE) for heads in (HEADS, KV, KV)]
    given = [np.concatenate(parts, 2), None, None] if packed else parts
    past = [f32(len(tokens), KV, rows, WIDE), f32(len(tokens), KV, rows, WIDE)] if rows >= 0 else [None, None]
    return [*given, *past, i32(*(t - 1 for t in tokens)), np.array(max(tokens), "int32")]


GROUPED = {
    "prompt": ("", S, 0, [3, 3]),
    "step": ("", 1, 4, [5, 5]),
    "ragged step": ("", 1, 4, [5, 3]),
    "step in a buffer": ("", 1, 9, [5, 3]),
    "several tokens": ("", 3, 4, [7]),
    "no past": ("", S, -1, [3, 3]),
}


@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", GROUPED)
@pytest.mark.newer_onnxruntime
def test_grouped_attention_is_onnx_runtimes(form, packed, rotary):
    given = grouped(*GROUPED[form], packed=packed)
    attrs = {"num_heads": HEADS, "kv_num_heads": KV, "do_rotary": rotary}
    outputs = 1 if form == "no past" else 3
    check("GroupQueryAttention", given, tables(half=WIDE // 2) if rotary else [], outputs, **attrs)


@pytest.mark.parametrize(
    "attrs",
    [
        {"scale": 0.2},
        {"softcap": 0.7},
        {"local_window_size": 2},
        {"local_window_size": 3},
        {"smooth_softmax": 1},
        {"causal": 0},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["prompt", "ragged step", "several tokens"])
@pytest.mark.newer_onnxruntime
def test_attributes_of_grouped_attention_are_onnx_runtimes(form, attrs):
    fixed = tables(half=WIDE // 2) if "do_rotary" in attrs else []
    check("GroupQueryAttention", grouped(*GROUPED[form]), fixed, 3, num_heads=HEADS, kv_num_heads=KV, **attrs)


def test_scores_of_grouped_attention_may_have_something_added():
    given = [*grouped("", 1, 4, [5, 3]), None, None, None, f32(1, HEADS, 1, 5)]
    check("GroupQueryAttention", given, [], 3, num_heads=HEADS, kv_num_heads=KV)
    given = [*grouped("", 3, 4, [7]), None, None, None, None, f32(HEADS)]
    check("GroupQueryAttention", given, [], 3, num_heads=HEADS, kv_num_heads=KV)


@pytest.mark.parametrize("form", ["prompt", "several tokens", "ragged step"])
def test_positions_of_grouped_attention_may_be_given(form):
    given = grouped(*GROUPED[form])
    queries = given[0].shape[1]
    positions = (given[5][:, None] + 1 - queries + np.arange(queries)).astype("int64")
    model = single_node(
        "GroupQueryAttention",
        1,
        [*given, *tables(half=WIDE // 2), positions],
        (),
        3,
        "com.microsoft",
        num_heads=HEADS,
        kv_num_heads=KV,
        do_rotary=1,
    )
    assert_like_onnx_runtime(model, feeds_of([*given, *tables(half=WIDE // 2), positions]), rtol=2e-5, atol=2e-5)


X, ROWS = f32(2, 3, 32), f32(2, 3, 32)
IMAGE, KERNEL = f32(1, 4, 6, 5), f32(6, 4, 3, 3)
WORDS, SEGMENTS = np.array([[3, 1, 7, 0], [2, 2, 5, 9]], "int32"), np.array([[0, 0, 1, 1], [0, 1, 1, 1]], "int32")
EMBEDDED = [f32(10, 8), f32(6, 8), f32(2, 8), f32(8), f32(8)]
CASES = {
    "LayerNormalization": ("", [X], [f32(32), f32(32)], 1, {}),  # in a model of opset 12, as the optimiser writes it
    "SimplifiedLayerNormalization": ("", [X], [f32(32)], 1, {}),
    "SimplifiedLayerNormalization over two axes": ("", [X], [f32(3, 32)], 2, {"axis": 1, "epsilon": 1e-3}),
    "SkipSimplifiedLayerNormalization": ("com.microsoft", [X, ROWS], [f32(32)], 1, {"epsilon": 1e-6}),
    "SkipSimplifiedLayerNormalization with its sum": ("com.microsoft", [X, ROWS], [f32(32), f32(32)], [0, 3], {}),
    "EmbedLayerNormalization": ("com.microsoft", [WORDS, SEGMENTS], EMBEDDED, 2, {}),
    "EmbedLayerNormalization without segments": (
        "com.microsoft",
        [WORDS, None],
        [*EMBEDDED[:2], None, *EMBEDDED[3:]],
        2,
        {"epsilon": 1e-3},
    ),
    "EmbedLayerNormalization with a mask": (
        "com.microsoft",
        [WORDS, SEGMENTS],
        [*EMBEDDED, np.array([[1, 1, 0, 0], [1, 1, 1, 1]], "int32")],
        3,
        {},
    ),
    "GatedRMSNorm": ("com.microsoft", [X], [f32(16), ROWS], 1, {}),
    "GatedRMSNorm by sigmoid": ("com.microsoft", [X], [f32(32), ROWS], 1, {"activation": "sigmoid"}),
    "ScaledSiLU": ("com.microsoft", [X], [], 1, {"alpha": 1.7}),
    "FusedConv": ("com.microsoft", [IMAGE], [KERNEL, f32(6)], 1, {"activation": "Relu", "pads": [1, 1, 1, 1]}),
    "FusedConv with a sum": (
        "com.microsoft",
        [IMAGE],
        [KERNEL, f32(6), f32(1, 6, 4, 3)],
        1,
        {"activation": "LeakyRelu", "activation_params": [0.3]},
    ),
    "FusedConv clipped": (
        "com.microsoft",
        [IMAGE],
        [KERNEL],
        1,
        {"activation": "Clip", "activation_params": [-0.5, 2.0], "strides": [2, 2]},
    ),
    "FusedConv by a hard sigmoid": (
        "com.microsoft",
        [IMAGE],
        [KERNEL],
        1,
        {"activation": "HardSigmoid", "activation_params": [0.3, 0.4]},
    ),
    "FusedGemm": ("com.microsoft", [f32(3, 5)], [f32(5, 4), f32(4)], 1, {"activation": "Relu", "alpha": 0.5}),
    "FusedGemm by an elu": (
        "com.microsoft",
        [f32(3, 5)],
        [f32(4, 5)],
        1,
        {"activation": "Elu", "activation_alpha": 0.4, "transB": 1},
    ),
    "ExpandDims": ("com.microsoft", [X], [i32(-2)[0]], 1, {}),
    "Pad": ("com.microsoft", [X], [i64(0, 1, 0, 2, 0, 3), np.float32(1.5)], 1, {}),
    "Pad by reflection": ("com.microsoft", [X], [i64(0, 1, 0, 0, 1, 3)], 1, {"mode": "reflect"}),
    "Unique": ("com.microsoft", [np.array([2, 1, 1, 3, 4, 3], "float32")], [], 3, {}),
    "CDist": ("com.microsoft", [f32(4, 6), f32(5, 6)], [], 1, {}),
    "CDist by roots": ("com.microsoft", [f32(4, 6), f32(5, 6)], [], 1, {"metric": "euclidean"}),
    "Trilu": ("com.microsoft", [f32(2, 4, 5)], [np.int64(1)], 1, {"upper": 0}),
    "GatherND": ("com.microsoft", [X, np.array([[0, 1], [1, 2]], "int64")], [], 1, {}),
    "Range": ("com.microsoft", [np.array(2, "int32"), np.array(9, "int32")], [], 1, {}),
    "Range by steps": ("com.microsoft", [np.array(n, "float32") for n in (2, 9, 1.5)], [], 1, {}),
    "GridSample": ("com.microsoft", [IMAGE, f32(1, 3, 4, 2)], [], 1, {"align_corners": 1}),
    "UnfoldTensor": ("com.microsoft", [f32(3, 9, 2)], [], 1, {"dim": 1, "size": 4, "step": 2}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.newer_onnxruntime
def test_an_operator_is_onnx_runtimes(case):
    domain, inputs, fixed, outputs, attrs = CASES[case]
    opset = 1 if domain else 12
    places = outputs if isinstance(outputs, list) else list(range(outputs))
    model = single_node(case.split()[0], opset, inputs, fixed, max(places) + 1, domain, **attrs)
    for place in set(range(max(places) + 1)) - set(places):
        model.graph.node[0].output[place] = ""
    kept = [model.graph.output[place] for place in places]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    assert_like_onnx_runtime(model, feeds_of(inputs), rtol=2e-5, atol=2e-5)


FREE = {
    "MultiHeadAttention": (MULTI_HEAD["past and mask"], [], 3, {"num_heads": HEADS, "unidirectional": 1}),
    "DecoderMaskedMultiHeadAttention": (DECODER["mask"], [], 3, {"num_heads": HEADS, **BUFFER}),
    "RotaryEmbedding": ([f32(B, HEADS, S, SIZE), np.array([[0, 1, 2], [5, 3, 9]], "int64")], tables(), 1, {}),
    "EmbedLayerNormalization": ([WORDS, SEGMENTS], EMBEDDED, 2, {}),
    "SkipSimplifiedLayerNormalization": ([X, ROWS], [f32(32)], 1, {}),
}


@pytest.mark.needs_cc
@pytest.mark.parametrize("op", FREE)
def test_batches_and_lengths_may_be_free_in_generated_code(op):
    inputs, fixed, outputs, attrs = FREE[op]
    model = single_node(op, 1, inputs, fixed, outputs, "com.microsoft", **attrs)
    names = {B: "batch", S: "new", P: "past", P + S: "total"} if op == "MultiHeadAttention" else {B: "batch"}
    for value in model.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if (axis in (0, 1, 2) and dim.dim_value in names and dim.dim_value != HEADS) or (axis, dim.dim_value) == (
                2,
                P,
            ):
                dim.dim_param = names.get(dim.dim_value, "past")
    feeds = feeds_of(inputs)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    library = byoc.compile(model)
    assert not library.report.get("host_fallbacks")
    for found, expected in zip(library.run(feeds), session.run(None, feeds), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "op, inputs, attrs, words",
    [
        ("MultiHeadAttention", [f32(1, 2, 30)] * 3, {"num_heads": 4}, "30 columns cannot be divided into 4 heads"),
        (
            "GroupQueryAttention",
            grouped("", 1, 4, [5]),
            {"num_heads": 4, "kv_num_heads": 3},
            "4 heads of queries cannot",
        ),
        (
            "GroupQueryAttention",
            grouped("", 1, 4, [5]),
            {"num_heads": 4, "kv_num_heads": 2, "local_window_size": 2, "sliding_window_cache": 1},
            "a cache that holds a window alone",
        ),
        ("RotaryEmbedding", [X, i64(0), f32(9, 5), f32(9, 5)], {}, "32 columns cannot be divided into heads of 10"),
        ("CDist", [f32(2, 3), f32(2, 3)], {"metric": "cosine"}, "metric is euclidean or sqeuclidean"),
        ("FusedConv", [IMAGE, KERNEL], {"activation": "Fancy"}, "the function 'Fancy' is not supported"),
        ("BeamSearch", [X], {}, "operators that are not supported: BeamSearch"),
    ],
)
def test_what_is_not_supported_is_refused(op, inputs, attrs, words):
    with pytest.raises(ImportModelError, match=words):
        import_onnx(single_node(op, 1, inputs, (), 1, "com.microsoft", **attrs))
