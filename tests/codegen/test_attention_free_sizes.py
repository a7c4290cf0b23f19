"""Attention whose batch, rows and keys are given when it runs: blocks of rows and keys, and what fills no block."""

from __future__ import annotations

import itertools

import numpy as np
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import byoc

pytestmark = pytest.mark.needs_cc
HEADS, DEPTH = 3, 20
ROWS, KEYS = (1, 3, 7, 16, 21, 37), (1, 5, 63, 64, 65, 130)


def attention(keys: str = "n", transposed: bool = True, guard: bool = False, dtype: str = "float32") -> bytes:
    """``softmax(q k + mask) v`` over a free batch, rows of free number *m*, and *keys*; *guard*: a NaN weighs nothing.

    *transposed*: the keys lie as the rows do, and are transposed in the model.
    """
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shapes = {
        "q": ["b", HEADS, "m", DEPTH],
        "k": ["b", HEADS, keys, DEPTH] if transposed else ["b", HEADS, DEPTH, keys],
        "v": ["b", HEADS, keys, DEPTH],
        "mask": ["b", 1, "m", keys],
    }
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]) if transposed else None,
        helper.make_node("MatMul", ["q", "kt" if transposed else "k"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scaled"]),
        helper.make_node("Add", ["scaled", "mask"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["weights"], axis=-1),
    ]
    if guard:
        nodes += [
            helper.make_node("IsNaN", ["weights"], ["bad"]),
            helper.make_node("Where", ["bad", "none", "weights"], ["used"]),
        ]
    nodes.append(helper.make_node("MatMul", ["used" if guard else "weights", "v"], ["y"]))
    graph = helper.make_graph(
        [n for n in nodes if n is not None],
        "attention",
        [helper.make_tensor_value_info(name, kind, shape) for name, shape in shapes.items()],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.array(v, dtype), name) for name, v in (("scale", 0.2), ("none", 0.0))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()


def feeds(b: int, m: int, n: int, transposed: bool = True, dtype: str = "float32") -> dict[str, np.ndarray]:
    rng = np.random.default_rng(b + 10 * m + 1000 * n)
    shapes = {"q": (b, HEADS, m, DEPTH), "k": (b, HEADS, n, DEPTH), "v": (b, HEADS, n, DEPTH), "mask": (b, 1, m, n)}
    made = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    made["k"] = made["k"] if transposed else np.ascontiguousarray(made["k"].swapaxes(2, 3))
    return made


def wanted(model: bytes, given: dict[str, np.ndarray], level: str = "ORT_ENABLE_ALL") -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]).run(None, given)[0]


def products(library: byoc.Library, m: int = 4, n: int = 4) -> list[str]:
    """The functions of the host with a product in them."""
    symbols = [f["symbol"] for f in library.profile(feeds(1, m, n)).to_json()["functions"]]
    return [s for s in symbols if "einsum" in s or "matmul" in s]


@pytest.mark.parametrize("transposed", [True, False])
def test_every_number_of_rows_and_keys_gives_what_onnx_runtime_gives(transposed):
    model = attention(transposed=transposed)
    library = byoc.compile(model, targets=["c"])
    for m, n in itertools.product(ROWS, KEYS):
        given = feeds(2, m, n, transposed)
        np.testing.assert_allclose(library.run(given)[0], wanted(model, given), rtol=3e-5, atol=3e-6)


def test_all_of_it_is_one_function_that_keeps_no_scores():
    library = byoc.compile(attention(), targets=["c"])
    assert len(products(library)) == 1
    assert library.report["host_fallbacks"] == {}
    m = n = 900
    memory = library.profile(feeds(1, m, n)).to_json()["memory"]["between nodes"]
    assert memory < HEADS * m * n * 4 / 4


def test_a_row_attends_to_as_many_keys_as_it_has_without_a_mask_for_the_others():
    model = attention(keys="m")  # of itself: one free length
    library = byoc.compile(model, targets=["c"])
    for m in (1, 15, 16, 17, 64, 80):
        given = feeds(1, m, m)
        given["mask"] = np.where(np.tril(np.ones((m, m), bool)), 0, -np.inf).astype("float32")[None, None]
        np.testing.assert_allclose(library.run(given)[0], wanted(model, given), rtol=3e-5, atol=3e-6)


def test_rows_without_any_key_are_nans_or_nothing_as_the_model_says():
    for guard in (False, True):
        model = attention(guard=guard)
        library = byoc.compile(model, targets=["c"])
        for m, n in ((5, 70), (16, 64), (33, 3)):
            given = feeds(2, m, n)
            given["mask"][:, :, ::3] = -np.inf
            given["v"][:, :, -1] = 1e30  # what is weighed by nothing adds nothing
            given["mask"][..., -1] = -np.inf
            np.testing.assert_allclose(library.run(given)[0], wanted(model, given), rtol=3e-5, atol=3e-6)


def test_float64_is_computed_so_too():
    model = attention(dtype="float64")
    library = byoc.compile(model, targets=["c"])
    for m, n in ((1, 9), (18, 129)):
        given = feeds(2, m, n, dtype="float64")
        # optimized, ONNX Runtime 1.23 fuses the transposition with the product, for which it has float32 alone
        expected = wanted(model, given, "ORT_DISABLE_ALL")
        np.testing.assert_allclose(library.run(given)[0], expected, rtol=1e-12, atol=1e-13)


def test_a_free_batch_of_fixed_sequences_has_no_scores_either():
    model = attention()
    shapes = {"q": ("b", HEADS, 50, DEPTH), "k": ("b", HEADS, 50, DEPTH), "v": ("b", HEADS, 50, DEPTH)}
    library = byoc.compile(model, targets=["c"], shapes={**shapes, "mask": ("b", 1, 50, 50)})
    assert len(products(library, 50, 50)) == 1
    for b in (1, 4):
        given = feeds(b, 50, 50)
        np.testing.assert_allclose(library.run(given)[0], wanted(model, given), rtol=3e-5, atol=3e-6)


def test_nothing_is_read_behind_the_last_key():
    """What lies behind the operands is NaN: one that is read shows in the result."""
    model = attention(transposed=False)
    library = byoc.compile(model, targets=["c"])
    given = feeds(1, 5, 67, transposed=False)
    padded = {}
    for name, value in given.items():
        whole = np.full(value.size + 4096, np.nan, "float32")
        whole[: value.size] = value.ravel()
        padded[name] = whole[: value.size].reshape(value.shape)
    np.testing.assert_allclose(library.run(padded)[0], wanted(model, given), rtol=3e-5, atol=3e-6)
