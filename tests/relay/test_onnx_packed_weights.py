"""ONNX Runtime's products with packed weights against ONNX Runtime."""

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import byoc
from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx import import_onnx
from byoc.relay.interpreter import evaluate

N = 7


def packed(codes: np.ndarray, bits: int) -> np.ndarray:
    """Codes as ONNX Runtime packs them along the last axis, the first in the lowest bits; the last byte is filled."""
    count = 8 // bits
    codes = np.concatenate([codes, np.zeros((*codes.shape[:-1], -codes.shape[-1] % count), "uint8")], axis=-1)
    parts = codes.reshape(*codes.shape[:-1], -1, count) << (np.arange(count, dtype="uint8") * bits)
    return np.bitwise_or.reduce(parts, axis=-1).astype("uint8")


def product(bits: int, depth: int, block: int, given: dict, leading=(3,), kind=np.float32, said=()):
    """A model of one node, and its inputs; *given* are its inputs from the zero points on, *said* other attributes."""
    rng = np.random.default_rng(bits * depth)
    blocks = -(-depth // block)
    codes = rng.integers(0, 2**bits, (N, blocks, block)).astype("uint8")
    scales = (rng.random((N, blocks)) * 0.2 + 0.01).astype(kind)
    x = rng.normal(size=(*leading, depth)).astype(kind)
    names = ["x", "b", "s", *(name if name in given else "" for name in ("z", "g", "bias"))]
    while not names[-1]:
        names.pop()
    values = {"b": packed(codes, bits), "s": scales, **given}
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    node = helper.make_node(
        "MatMulNBits",
        names,
        ["y"],
        domain="com.microsoft",
        **{"bits": bits, "block_size": block, "K": depth, "N": N, **dict(said)},
    )
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", element, x.shape)],
        [helper.make_tensor_value_info("y", element, [*leading, N])],
        [numpy_helper.from_array(value, name) for name, value in values.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), x


def by_onnxruntime(model, x):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


RNG = np.random.default_rng(1)
FORMS = {
    "plain": (4, 64, 32, {}),
    "8 bits": (8, 64, 16, {}),
    "2 bits": (2, 64, 32, {}),
    "a last block that is not full": (4, 70, 32, {}),
    "zero points": (4, 96, 32, {"z": packed(RNG.integers(0, 16, (N, 3)).astype("uint8"), 4)}),
    "zero points of 8 bits": (8, 96, 32, {"z": RNG.integers(0, 255, (N, 3)).astype("uint8")}),
    "zero points as floats": (4, 64, 32, {"z": RNG.random((N, 2)).astype("float32") * 9}),
    "a bias": (4, 64, 32, {"bias": RNG.random(N).astype("float32")}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("leading", [(3,), (2, 3)], ids=["matrix", "batch"])
@pytest.mark.newer_onnxruntime
def test_a_product_with_packed_weights_is_onnx_runtimes(form, leading):
    model, x = product(*FORMS[form], leading=leading)
    want = by_onnxruntime(model, x)
    np.testing.assert_allclose(evaluate(import_onnx(model), {"x": x}), want, rtol=2e-5, atol=1e-4)


def test_blocks_in_an_order_of_their_own():
    model, x = product(4, 64, 32, {"g": (np.arange(64) % 2).astype("int32")})
    np.testing.assert_allclose(evaluate(import_onnx(model), {"x": x}), by_onnxruntime(model, x), rtol=2e-5, atol=1e-4)


def test_half_precision_is_within_its_rounding():
    model, x = product(4, 64, 32, {}, kind=np.float16)
    got = np.asarray(evaluate(import_onnx(model), {"x": x}))
    assert got.dtype == np.float16
    np.testing.assert_allclose(got, by_onnxruntime(model, x), rtol=4e-3, atol=8e-3)


@pytest.mark.needs_cc
def test_no_part_of_it_runs_on_numpy_kernels():
    model, x = product(4, 256, 32, {"z": packed(RNG.integers(0, 16, (N, 8)).astype("uint8"), 4)})
    library = byoc.compile(model)
    assert not library.report.get("host_fallbacks")
    np.testing.assert_allclose(library.run({"x": x})[0], by_onnxruntime(model, x), rtol=2e-5, atol=1e-4)


REFUSED = {
    "bits is 2, 4 or 8, got 3": {"bits": 3},
    "block_size is a power of 2 from 16 on, got 24": {"block_size": 24},
    "weight_prepacked": {"weight_prepacked": 1},
    r"B is uint8\[7, 4, 16\] for N 7 and K 100, got .*2, 16": {"K": 100},
    "the last dimension of A is K, 60": {"K": 60},
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_does_not_fit_is_refused(sentence):
    model, _ = product(4, 64, 32, {}, said=REFUSED[sentence])
    with pytest.raises(ImportModelError, match=sentence):
        import_onnx(model)


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("indices", [np.array([[3, 0], [8, -1]]), np.array(5, "int32")], ids=["many", "one"])
@pytest.mark.newer_onnxruntime
def test_rows_of_a_packed_table_are_onnx_runtimes(indices, bits, zeros):
    codes = RNG.integers(0, 2**bits, (9, 48)).astype("uint8")
    scales = (RNG.random((9, 3)) + 0.1).astype("float32")
    fixed = [packed(codes, bits), scales]
    if zeros:
        fixed.append(packed(RNG.integers(0, 2**bits, (9, 3)).astype("uint8"), bits))
    check_table(fixed, indices, bits=bits, block_size=16)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
@pytest.mark.parametrize("axis, along", [(0, 1), (0, 2), (1, 0), (2, 1), (1, 1)])
def test_elements_of_a_table_of_four_bits_are_onnx_runtimes(axis, along, dtype):
    kind, shape = getattr(ml_dtypes, dtype), [20, 18, 33]
    blocks = [-(-n // 16) if k == along else n for k, n in enumerate(shape)]
    numbers = [RNG.integers(-8 if dtype == "int4" else 0, 8, s).astype(kind) for s in (shape, blocks)]
    fixed = [numbers[0], (RNG.random(blocks) + 0.1).astype("float32"), numbers[1]]
    check_table(fixed, np.array([[1, 17], [0, -2]]), block_size=16, gather_axis=axis, quantize_axis=along)


def check_table(fixed, indices, **attrs):
    names = ["t", "i", "s", "z"][: len(fixed) + 1]
    node = helper.make_node("GatherBlockQuantized", names, ["y"], domain="com.microsoft", **attrs)
    element = helper.np_dtype_to_tensor_dtype(indices.dtype)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("i", element, indices.shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        [numpy_helper.from_array(value, n) for value, n in zip(fixed, ["t", "s", "z"], strict=False)],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    want = session.run(None, {"i": indices})[0]
    got = evaluate(import_onnx(model), {"i": indices})
    assert got.shape == want.shape
    np.testing.assert_array_equal(got, want)
