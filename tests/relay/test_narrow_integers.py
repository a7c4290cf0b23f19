"""NarrowIntegerProducts: the same integers, bit for bit, from products of bytes."""

from __future__ import annotations

import numpy as np
import pytest

from byoc import relay
from byoc.ir.module import IRModule
from byoc.relay.expr import Call, Function, RelayExpr
from byoc.relay.interpreter import evaluate
from byoc.relay.qnn.passes import NarrowIntegerProducts
from byoc.relay.structure.structural import structural_equal
from byoc.relay.transform import InferType
from byoc.relay.traverse import post_order

RNG = np.random.default_rng(7)
PRODUCTS = ("nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.dense", "nn.matmul", "nn.batch_matmul")


def _weights(*shape: int, low: int = -128, high: int = 128, dtype: str = "int32") -> RelayExpr:
    return relay.const(RNG.integers(low, high, shape).astype(dtype))


def _data(shape: tuple[int, ...], dtype: str, zero: int | None) -> RelayExpr:
    value: RelayExpr = relay.cast(relay.var("x", shape=shape, dtype=dtype), "int32")
    return value if zero is None else relay.subtract(value, relay.const(np.int32(zero)))


def _conv(dtype: str, zero: int | None, layout: str = "NCHW", **attrs: object) -> RelayExpr:
    shape = (2, 8, 9, 7) if layout == "NCHW" else (2, 9, 7, 8)
    kernel = (12, 8, 3, 3) if layout == "NCHW" else (3, 3, 8, 12)
    if attrs.get("groups") == 2:
        kernel = (12, 4, 3, 3)
    return relay.nn.conv2d(
        _data(shape, dtype, zero),
        _weights(*kernel),
        kernel_size=(3, 3),
        channels=12,
        data_layout=layout,
        kernel_layout="OIHW" if layout == "NCHW" else "HWIO",
        **attrs,
    )


NARROWED = {
    "dense": relay.nn.dense(_data((5, 9), "uint8", 120), _weights(6, 9)),
    "dense of signed data": relay.nn.dense(_data((5, 9), "int8", -7), _weights(6, 9)),
    "dense without a zero point": relay.nn.dense(_data((5, 9), "uint8", None), _weights(6, 9)),
    "dense of signed data without a zero point": relay.nn.dense(_data((5, 9), "int8", None), _weights(6, 9)),
    "dense of a reshaped value": relay.nn.dense(relay.reshape(_data((5, 3, 3), "uint8", 9), (5, 9)), _weights(6, 9)),
    "dense of two axes before": relay.nn.dense(_data((2, 5, 9), "uint8", 3), _weights(6, 9)),
    "matmul": relay.nn.matmul(_data((5, 9), "uint8", 3), _weights(9, 6)),
    "matmul of a transposed matrix": relay.nn.matmul(_data((5, 9), "int8", 3), _weights(6, 9), transpose_b=True),
    "batch_matmul": relay.nn.batch_matmul(_data((3, 5, 9), "uint8", 200), _weights(3, 6, 9)),
    "batch_matmul of one matrix": relay.nn.batch_matmul(
        _data((3, 5, 9), "int8", 2), _weights(1, 9, 6), transpose_b=False
    ),
    "conv2d": _conv("uint8", 120),
    "conv2d, padded": _conv("uint8", 120, padding=(1, 0, 2, 1)),
    "conv2d, padded, signed": _conv("int8", -100, padding=(1, 1, 1, 1), strides=(2, 1)),
    "conv2d, padded, signed, without a zero point": _conv("int8", None, padding=(1, 1, 1, 1)),
    "conv2d, padded, without a zero point": _conv("uint8", None, padding=(1, 1, 1, 1)),
    "conv2d with channels last": _conv("uint8", 5, "NHWC", padding=(1, 1, 1, 1)),
    "conv2d in groups": _conv("uint8", 77, padding=(1, 1, 1, 1), groups=2, dilation=(2, 2)),
    "conv1d": relay.nn.conv1d(
        _data((1, 4, 9), "uint8", 8), _weights(6, 4, 3), kernel_size=(3,), channels=6, padding=(2,)
    ),
}
LEFT = {
    "weights that need nine bits": relay.nn.dense(_data((5, 9), "uint8", 1), _weights(6, 9, low=-129, high=-128)),
    "weights above a byte": relay.nn.dense(_data((5, 9), "uint8", 1), _weights(6, 9, low=128, high=129)),
    "data of 16 bits": relay.nn.dense(_data((5, 9), "int16", 1), _weights(6, 9)),
    "weights that are computed": relay.nn.dense(
        _data((5, 9), "uint8", 1), relay.cast(relay.var("w", shape=(6, 9), dtype="int8"), "int32")
    ),
    "a zero point for each column": relay.nn.dense(
        relay.subtract(relay.cast(relay.var("x", shape=(5, 9), dtype="uint8"), "int32"), _weights(9)), _weights(6, 9)
    ),
    "a depthwise convolution": relay.nn.conv2d(
        _data((1, 8, 9, 9), "uint8", 3), _weights(8, 1, 3, 3), kernel_size=(3, 3), channels=8, groups=8
    ),
    "data that is narrow already": relay.nn.dense(
        relay.var("x", shape=(5, 9), dtype="uint8"), _weights(6, 9, dtype="int8"), out_dtype="int32"
    ),
}


def _module(body: RelayExpr) -> IRModule:
    return InferType()(IRModule.from_expr(Function(relay.analysis.free_vars(body), body)))


def _products(mod: IRModule) -> list[Call]:
    nodes = post_order(mod["main"].body)  # type: ignore[attr-defined]
    return [n for n in nodes if isinstance(n, Call) and getattr(n.op, "name", "") in PRODUCTS]


def _extremes(ty) -> np.ndarray:
    low, high = np.iinfo(ty.dtype).min, np.iinfo(ty.dtype).max
    return np.where(RNG.random(ty.shape) < 0.4, RNG.choice([low, high], ty.shape), RNG.integers(low, high, ty.shape))


@pytest.mark.parametrize("name", list(NARROWED))
def test_a_product_of_bytes_gives_the_same_integers(name):
    before = _module(NARROWED[name])
    after = NarrowIntegerProducts()(before)
    (product,) = _products(after)
    assert [a.checked_type.dtype for a in product.args] == ["uint8", "int8"]
    assert product.checked_type.dtype == "int32"
    values = [_extremes(p.checked_type).astype(p.checked_type.dtype) for p in before["main"].params]
    np.testing.assert_array_equal(_run(after, values), _run(before, values))


def _run(mod: IRModule, values: list[np.ndarray]) -> np.ndarray:
    return np.asarray(evaluate(mod["main"], values))


@pytest.mark.parametrize("name", list(LEFT))
def test_what_does_not_fit_is_left(name):
    before = _module(LEFT[name])
    after = NarrowIntegerProducts()(before)
    assert structural_equal(after["main"], before["main"])


def test_a_zero_point_that_is_computed_is_taken_off_at_run_time():
    x, z = relay.var("x", shape=(5, 9), dtype="uint8"), relay.var("z", shape=(), dtype="uint8")
    body = relay.nn.dense(relay.subtract(relay.cast(x, "int32"), relay.cast(z, "int32")), _weights(6, 9))
    before = _module(body)
    after = NarrowIntegerProducts()(before)
    assert [a.checked_type.dtype for a in _products(after)[0].args] == ["uint8", "int8"]
    values = [_extremes(x.checked_type).astype("uint8"), np.array(250, "uint8")]
    np.testing.assert_array_equal(_run(after, values), _run(before, values))


def test_constants_that_would_grow_by_folding_are_computed_here():
    weight = relay.transpose(
        relay.subtract(relay.cast(_weights(9, 6, low=0, high=256, dtype="uint8"), "int32"), relay.const(np.int32(128))),
        (1, 0),
    )
    before = _module(relay.nn.dense(_data((5, 9), "uint8", 4), weight))
    (product,) = _products(NarrowIntegerProducts()(before))
    assert isinstance(product.args[1], relay.Constant) and product.args[1].data.dtype == "int8"
