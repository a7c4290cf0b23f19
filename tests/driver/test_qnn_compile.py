"""A quantized model compiles: what stays on the host is lowered, what a backend takes keeps its quantized operators."""

import numpy as np
import pytest

import byoc
import byoc.relay as relay
from byoc.driver.pipeline import prepare_host
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.relay.expr import Call
from byoc.relay.interpreter import evaluate
from byoc.relay.traverse import post_order


def quantized_network() -> IRModule:
    """Convolution, requantization, a sum with a branch, sigmoid and a dense layer, all on 8-bit integers."""
    rng = np.random.default_rng(3)
    x = relay.var("x", shape=(1, 3, 8, 8), dtype="uint8")
    weight = relay.const(rng.integers(-100, 100, (4, 3, 3, 3)).astype("int8"))
    scales = relay.const(np.array([0.01, 0.02, 0.005, 0.03], "float32"))
    conv = relay.qnn.op.conv2d(
        x, weight, relay.const(128), relay.const(0), relay.const(0.1), scales, (3, 3), 4, padding=(1, 1)
    )
    products = relay.const(np.array([0.001, 0.002, 0.0005, 0.003], "float32"))
    left = relay.qnn.op.requantize(conv, products, relay.const(0), relay.const(0.05), relay.const(-3), axis=1)
    right = relay.qnn.op.sigmoid(left, relay.const(0.05), relay.const(-3), relay.const(1 / 256), relay.const(-128))
    total = relay.qnn.op.add(
        left,
        right,
        relay.const(0.05),
        relay.const(-3),
        relay.const(1 / 256),
        relay.const(-128),
        relay.const(0.06),
        relay.const(1),
    )
    flat = relay.nn.batch_flatten(total)
    matrix = relay.const(rng.integers(-100, 100, (5, 256)).astype("int8"))
    dense = relay.qnn.op.dense(flat, matrix, relay.const(1), relay.const(2), relay.const(0.06), relay.const(0.01), 5)
    out = relay.qnn.op.dequantize(dense, relay.const(0.0006), relay.const(0))
    return relay.transform.InferType()(IRModule.from_expr(out))


@pytest.mark.needs_cc
def test_a_compiled_quantized_network_gives_what_its_kernels_give() -> None:
    mod = quantized_network()
    data = np.random.default_rng(0).integers(0, 256, (1, 3, 8, 8)).astype("uint8")
    library = byoc.compile(mod)
    assert library.report["host_fallbacks"] == {}
    np.testing.assert_array_equal(library.run({"x": data})[0], evaluate(mod, [data]))


def test_the_host_is_given_plain_operators_alone() -> None:
    lowered = prepare_host()(quantized_network())
    names = {n.op.name for n in post_order(lowered["main"]) if isinstance(n, Call) and isinstance(n.op, Op)}
    assert "nn.conv2d" in names and not any(name.startswith("qnn.") for name in names)


def test_folding_leaves_quantized_weights_as_they_were_written_unless_asked() -> None:
    weight = relay.qnn.op.dequantize(relay.const(np.arange(4, dtype="int8")), relay.const(0.5), relay.const(1))
    mod = IRModule.from_expr(weight)
    assert isinstance(relay.transform.FoldConstant()(mod)["main"].body, Call)
    folded = relay.transform.FoldConstant(fold_qnn=True)(mod)["main"].body
    np.testing.assert_array_equal(folded.data.numpy(), np.array([-0.5, 0, 0.5, 1], "float32"))
    assert relay.transform.FoldConstantExpr(weight, IRModule(), True).data.numpy().tolist() == [-0.5, 0, 0.5, 1]
    assert isinstance(relay.transform.FoldConstantExpr(weight, IRModule()), Call)
