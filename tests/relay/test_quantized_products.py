"""QuantizedProducts: products of dequantized numbers over their integers, and weights taken apart again."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.ir.module import IRModule
from byoc.relay.expr import Call, Function, RelayExpr
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn.passes import QuantizedProducts
from byoc.relay.qnn.quantized_products import whole_multiples
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform import InferType
from byoc.relay.traverse import post_order

RNG = np.random.default_rng(11)


def _whole(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape)


@pytest.mark.parametrize("seed", range(5))
def test_weights_that_were_quantized_are_found_with_their_scales(seed):
    rng = np.random.default_rng(seed)
    whole = rng.integers(-100, 101, (16, 40))
    scales = rng.uniform(1e-4, 3, (16, 1)).astype("float32")
    found = whole_multiples(whole.astype("float32") * scales)
    assert found is not None and found[0].dtype == np.int8
    np.testing.assert_allclose(found[0] * found[1][:, None], whole * scales.astype("float64"), rtol=1e-6)


def test_one_scale_for_all_outputs_is_found_though_most_do_not_reach_its_end():
    whole = np.array([[127, 3, -2], [1, 0, -5], [0, 0, 0], [-128, 90, 7]])
    found = whole_multiples((whole * np.float32(0.013)).astype("float32"))
    assert found is not None
    np.testing.assert_allclose(found[0] * found[1][:, None], whole * np.float32(0.013), rtol=1e-6)


def test_weights_that_were_never_quantized_are_left():
    assert whole_multiples(RNG.standard_normal((4, 50)).astype("float32")) is None
    assert whole_multiples(np.array([[1.0, np.inf]], "float32")) is None


def _dequantized(shape: tuple[int, ...], scale: float, zero: int) -> RelayExpr:
    x = relay.subtract(relay.cast(relay.var("x", shape=shape, dtype="uint8"), "int32"), relay.const(np.int32(zero)))
    return relay.multiply(relay.cast(x, "float32"), relay.const(np.float32(scale)))


def _scaled(whole: np.ndarray, axis: int) -> RelayExpr:
    shape = [-1 if k == axis else 1 for k in range(whole.ndim)]
    scales = RNG.uniform(0.001, 0.1, whole.shape[axis]).astype("float32").reshape(shape)
    return relay.const(whole.astype("float32") * scales)


def _module(body: RelayExpr) -> IRModule:
    return InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body)))


PRODUCTS = {
    "dense": relay.nn.dense(_dequantized((5, 9), 0.02, 120), _scaled(_whole(7, 9), 0)),
    "dense of a reshaped value": relay.nn.dense(
        relay.reshape(_dequantized((5, 3, 3), 0.02, 7), (5, 9)), _scaled(_whole(7, 9), 0)
    ),
    "conv2d": relay.nn.conv2d(
        _dequantized((1, 4, 8, 8), 0.5, 3),
        _scaled(_whole(6, 4, 3, 3), 0),
        kernel_size=(3, 3),
        channels=6,
        padding=(1, 1, 1, 1),
    ),
    "conv2d with channels last": relay.nn.conv2d(
        _dequantized((1, 8, 8, 4), 0.5, 3),
        _scaled(_whole(3, 3, 4, 6), 3),
        kernel_size=(3, 3),
        channels=6,
        data_layout="NHWC",
        kernel_layout="HWIO",
    ),
}


@pytest.mark.parametrize("name", list(PRODUCTS))
def test_a_product_of_dequantized_numbers_sums_integers(name):
    before = _module(PRODUCTS[name])
    after = QuantizedProducts()(before)
    nodes = post_order(after["main"].body)  # type: ignore[attr-defined]
    (product,) = (n for n in nodes if isinstance(n, Call) and getattr(n.op, "name", "") in ("nn.dense", "nn.conv2d"))
    assert product.checked_type.dtype == "int32" and after["main"].body.checked_type == before["main"].body.checked_type
    shape = before["main"].params[0].checked_type.shape
    x = RNG.integers(0, 256, shape).astype("uint8")
    want, got = (np.asarray(evaluate(m["main"], [x])) for m in (before, after))
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


@pytest.mark.parametrize(
    "body",
    [
        relay.nn.dense(_dequantized((5, 9), 0.02, 1), relay.const(RNG.standard_normal((7, 9)).astype("float32"))),
        relay.nn.dense(relay.var("x", shape=(5, 9)), _scaled(_whole(7, 9), 0)),
        relay.nn.conv2d(
            _dequantized((1, 4, 8, 8), 0.5, 3), _scaled(_whole(4, 1, 3, 3), 0), kernel_size=(3, 3), channels=4, groups=4
        ),
    ],
    ids=["weights that were never quantized", "data that was never quantized", "a depthwise convolution"],
)
def test_what_was_not_quantized_is_left(body):
    before = _module(body)
    assert structural_equal(QuantizedProducts()(before)["main"], before["main"])
