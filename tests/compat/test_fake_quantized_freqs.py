"""list_fake_quantized_op_freqs: float operators between dequantized tensors and a quantize."""

from __future__ import annotations


def _dequantized(relay, name, shape, scale=2.0):
    x = relay.var(name, shape=shape, dtype="int8")
    return relay.qnn.op.dequantize(x, relay.const(scale), relay.const(0))


def _quantized(relay, expr, dtype="int8"):
    return relay.qnn.op.quantize(expr, relay.const(1.0), relay.const(0), out_dtype=dtype)


def _freqs(tvm, relay, expr):
    return dict(relay.analysis.list_fake_quantized_op_freqs(tvm.IRModule.from_expr(expr)))


def test_a_convolution(tvm, relay):
    conv = relay.nn.conv2d(
        _dequantized(relay, "x", [1, 3, 9, 9]), _dequantized(relay, "w", [4, 3, 5, 5], 0.5), kernel_size=[5, 5]
    )
    assert _freqs(tvm, relay, _quantized(relay, conv)) == {"nn.conv2d": 1}


def test_two_regions_and_what_stands_between_them(tvm, relay):
    first = _quantized(relay, relay.nn.dense(_dequantized(relay, "x", [8, 8]), _dequantized(relay, "w", [8, 8])))
    # just outside of a region: its input is dequantized, its result is read by no quantize
    between = relay.sigmoid(relay.qnn.op.dequantize(first, relay.const(2.0), relay.const(0)))
    again = relay.qnn.op.dequantize(_quantized(relay, between), relay.const(1.0), relay.const(0))
    second = _quantized(relay, relay.nn.relu(relay.nn.dense(again, _dequantized(relay, "w2", [8, 8]))))
    assert _freqs(tvm, relay, second) == {"nn.dense": 2, "sigmoid": 1, "nn.relu": 1}


def test_moves_and_tuples(tvm, relay):
    x = _dequantized(relay, "x", [1, 3, 4, 4])
    pooled = relay.nn.max_pool2d(x, [2, 2])
    moved = relay.reshape(relay.transpose(pooled, [1, 0, 2, 3]), [3, -1])
    joined = relay.concatenate([moved, relay.reshape(_dequantized(relay, "y", [3, 4]), [3, -1])], axis=1)
    counts = {"nn.max_pool2d": 1, "transpose": 1, "reshape": 2, "concatenate": 1}
    assert _freqs(tvm, relay, _quantized(relay, joined)) == counts


def test_a_float_input_opens_a_region(tvm, relay):
    x = relay.var("x", shape=[3, 4])
    assert _freqs(tvm, relay, _quantized(relay, relay.nn.relu(x + _dequantized(relay, "y", [3, 4])))) == {}
