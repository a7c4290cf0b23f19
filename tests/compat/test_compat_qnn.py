"""Quantized networks as they are written for Relay, from pairs of quantize and dequantize to an int8 accelerator."""

import numpy as np
import pytest

RNG = np.random.default_rng(0)


def integers(*shape, dtype="int8", low=-100, high=100):
    return RNG.integers(low, high, shape).astype(dtype)


def test_every_module_of_quantization_is_found_under_its_name(tvm) -> None:
    import tvm.relay.qnn.op.canonicalizations
    import tvm.relay.qnn.op.legalizations
    import tvm.relay.qnn.op.op
    import tvm.relay.qnn.op.qnn
    import tvm.relay.qnn.transform
    from tvm.ir import TensorAffineType, TupleAffineType
    from tvm.ir.affine_type import TensorAffineType as Same
    from tvm.relay.op import op_attrs, register_fake_quantization_to_integer
    from tvm.relay.qnn.op import register_qnn_legalize
    from tvm.relay.transform.fake_quantization_to_integer import approx_equal, fold_constant
    from tvm.topi.nn.qnn import SQNN_DTYPE_TO_CODE

    assert Same is TensorAffineType is not TupleAffineType
    assert SQNN_DTYPE_TO_CODE["uint8"] == 2
    assert callable(register_fake_quantization_to_integer) and callable(register_qnn_legalize)
    assert approx_equal(fold_constant(tvm.relay.const(2.0) * tvm.relay.const(0.5)), tvm.relay.const(1.0))
    for name in ("QuantizeAttrs", "DequantizeAttrs", "RequantizeAttrs", "BroadcastAttrs", "SimulatedQuantizeAttrs"):
        assert getattr(op_attrs, name).__name__ == name


def fake_quantized(relay):
    """Two layers with a residual sum, each between dequantized tensors and a quantize."""
    quantize, dequantize = relay.qnn.op.quantize, relay.qnn.op.dequantize
    zero = relay.const(0)
    x = relay.var("x", shape=(1, 4, 8, 8), dtype="int8")
    value = dequantize(x, relay.const(0.05), relay.const(3))
    for k in range(2):
        weight = dequantize(relay.const(integers(4, 4, 3, 3)), relay.const(0.01 + 0.005 * k), zero)
        bias = dequantize(relay.const(integers(4, dtype="int32", low=-500, high=500)), relay.const(0.0005), zero)
        op = relay.nn.conv2d(value, weight, padding=(1, 1), channels=4, kernel_size=(3, 3))
        op = relay.nn.relu(relay.nn.bias_add(op, bias))
        value = dequantize(quantize(op, relay.const(0.1), relay.const(-100)), relay.const(0.1), relay.const(-100))
    value = relay.add(value, dequantize(x, relay.const(0.05), relay.const(3)))
    return relay.Function([x], quantize(value, relay.const(0.12), relay.const(-90)))


def test_a_fake_quantized_network_is_cut_for_an_int8_accelerator(tvm, relay) -> None:
    from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
    from tvm.relay.op.contrib.register import register_pattern_table

    def layer():
        conv = is_op("qnn.conv2d")(
            wildcard(), is_constant(), is_constant(), is_constant(), is_constant(), is_constant()
        )
        bias = is_op("nn.bias_add")(conv, wildcard())
        relu = bias.optional(lambda p: is_op("maximum")(p, is_constant()))
        return is_op("qnn.requantize")(relu, is_constant(), is_constant(), is_constant(), is_constant())

    def takes(call):
        return call.attrs.out_dtype == "int8" and float(call.args[3].data.numpy()) > 0

    @register_pattern_table("npu")
    def table():
        return [("npu.layer", layer(), takes), ("npu.add", is_op("qnn.add")(*[wildcard() for _ in range(8)]))]

    mod = tvm.IRModule.from_expr(fake_quantized(relay))
    mod = relay.transform.InferType()(mod)
    ints = relay.transform.FakeQuantizationToInteger(hard_fail=True)(mod)
    cut = tvm.transform.Sequential(
        [
            relay.transform.MergeComposite(table()),
            relay.transform.AnnotateTarget("npu"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
    )(ints)
    regions = [f for f in cut.functions.values() if "Compiler" in f.attrs]
    composites = [
        n.op.attrs["Composite"]
        for f in regions
        for n in calls(relay, f)
        if hasattr(n.op, "attrs") and "Composite" in n.op.attrs
    ]
    assert composites == ["npu.layer", "npu.layer", "npu.add"]
    data = integers(1, 4, 8, 8)
    want, got, again = (
        relay.create_executor(kind, mod=m, device=tvm.cpu(), target="llvm").evaluate()(data).numpy().astype(int)
        for kind, m in (("debug", mod), ("graph", ints), ("debug", cut))
    )
    assert np.abs(want - got).max() <= 1 and len(np.unique(want)) > 20
    np.testing.assert_array_equal(got, again)


def calls(relay, func):
    found = []
    relay.analysis.post_order_visit(func, lambda n: found.append(n) if isinstance(n, relay.Call) else None)
    return found


@pytest.mark.needs_cc
def test_a_requantization_is_built_under_the_configuration_of_its_context(tvm, relay) -> None:
    from tvm.contrib import graph_executor

    x = relay.var("x", shape=(6,), dtype="int32")
    call = relay.qnn.op.requantize(x, relay.const(0.5), relay.const(0), relay.const(1.0), relay.const(0))
    mod = tvm.IRModule.from_expr(relay.Function([x], call))
    for rounding, want in (("UPWARD", [-2, -1, 0, 1, 2, 3]), ("TONEAREST", [-3, -2, -1, 1, 2, 3])):
        for compute in ("int64", "float32", "float64"):
            asked = relay.qnn.op.requantize_config(rounding=rounding, compute_dtype=compute)
            with asked, tvm.transform.PassContext(opt_level=3):
                library = relay.build(mod, target="llvm")
            module = graph_executor.GraphModule(library["default"](tvm.cpu(0)))
            module.set_input("x", np.array([-5, -3, -1, 1, 3, 5], "int32"))
            module.run()
            assert module.get_output(0).numpy().tolist() == want
