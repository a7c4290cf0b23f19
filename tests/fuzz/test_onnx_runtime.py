"""ONNX Runtime as the fuzzing kit asks it: exact sums of products of bytes on every processor."""

import numpy as np
import pytest
from onnx import helper

from fuzz.judge.oracle import run_node

RANGES = {"uint8": (0, 256), "int8": (-128, 128)}


def numbers(dtype, *shape):
    """Values of *dtype* near its ends, whose products saturate where two are added in 16 bits."""
    low, high = RANGES[dtype]
    return np.random.default_rng(3).choice([low, low + 1, high - 2, high - 1], shape).astype(dtype)


@pytest.mark.parametrize("zeros", [0, 1, 2])
@pytest.mark.parametrize("other", RANGES)
@pytest.mark.parametrize("dtype", RANGES)
def test_a_product_of_bytes_is_exact(dtype, other, zeros):
    feeds = {"a": numbers(dtype, 5, 33), "b": numbers(other, 33, 7)}
    offsets = [np.array(3, dtype), np.array(-2 % 256 if other == "uint8" else -2, "int64").astype(other)][:zeros]
    feeds |= {f"z{k}": z for k, z in enumerate(offsets)}
    found = run_node(helper.make_node("MatMulInteger", list(feeds), ["y"]), 13, feeds)[0]
    first, second = (*map(int, offsets), 0, 0)[:2]
    np.testing.assert_array_equal(found, (feeds["a"].astype(int) - first) @ (feeds["b"].astype(int) - second))


@pytest.mark.parametrize("columns", [(), (7,)])
def test_a_requantized_product_of_bytes_is_exact(columns):
    a, b = numbers("uint8", 5, 33), numbers("int8", 33, 7)
    one, zero = np.float32(1), np.array(128, "uint8")
    feeds = {
        "a": a,
        "s": one,
        "z": zero,
        "b": b,
        "t": np.ones(columns, "float32"),
        "o": np.zeros(columns, "int8"),
        "u": np.float32(4096),
        "v": zero,
    }
    found = run_node(
        helper.make_node("QLinearMatMul", list(feeds), ["y"]), 13, {n: np.asarray(v) for n, v in feeds.items()}
    )[0]
    exact = (a.astype(int) - 128) @ b.astype(int)
    np.testing.assert_array_equal(found, np.clip(np.rint(exact / 4096) + 128, 0, 255))


def test_a_requantized_convolution_of_bytes_is_exact():
    x, w = numbers("uint8", 1, 9, 4, 4), numbers("int8", 6, 9, 1, 1)
    feeds = {
        "x": x,
        "s": np.float32(1),
        "z": np.array(120, "uint8"),
        "w": w,
        "t": np.float32(1),
        "o": np.array(0, "int8"),
        "u": np.float32(1024),
        "v": np.array(128, "uint8"),
    }
    found = run_node(
        helper.make_node("QLinearConv", list(feeds), ["y"]), 13, {n: np.asarray(v) for n, v in feeds.items()}
    )[0]
    exact = np.einsum("ncij,oc->noij", x.astype(int) - 120, w[:, :, 0, 0].astype(int))
    np.testing.assert_array_equal(found, np.clip(np.rint(exact / 1024) + 128, 0, 255))


@pytest.mark.parametrize("zero", [5, 6])
@pytest.mark.parametrize(
    ("data", "other"), [("int8", "uint8"), ("int8", "int8"), ("uint8", "int8"), ("uint8", "uint8")]
)
@pytest.mark.parametrize("operator", ["QLinearMatMul", "QLinearConv"])
def test_a_tie_is_rounded_to_even_before_the_zero_point_is_added(operator, data, other, zero):
    shape = (1, 1) if operator == "QLinearMatMul" else (1, 1, 1, 1)
    for value in range(1, 8):
        feeds = {
            "x": np.full(shape, value, data),
            "s": np.float32(1),
            "z": np.array(0, data),
            "w": np.full(shape, 1, other),
            "t": np.float32(1),
            "o": np.array(0, other),
            "u": np.float32(2),
            "v": np.array(zero, data),
        }
        found = run_node(
            helper.make_node(operator, list(feeds), ["y"]), 13, {n: np.asarray(v) for n, v in feeds.items()}
        )[0]
        assert found.dtype == data
        assert found.item() == np.rint(value / 2) + zero
