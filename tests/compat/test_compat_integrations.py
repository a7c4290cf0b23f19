"""Integrations written for Relay run as they are: partitioned, compiled and executed, with the numbers of the whole."""

import importlib

import numpy as np
import pytest

pytestmark = pytest.mark.needs_cc


def vendor(name):
    return importlib.import_module(f"tvm.relay.op.contrib.{name}")


def regions(mod, compiler):
    return [f for f in mod.functions.values() if f.attrs.get("Compiler") == compiler]


def composites(region):
    from tvm import relay

    names = []
    relay.analysis.post_order_visit(
        region.body,
        lambda n: names.append(n.op.attrs["Composite"])
        if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)
        else None,
    )
    return names


def run(mod, inputs, params=None):
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    with tvm.transform.PassContext(opt_level=3):
        graph, lib, rest = relay.build(mod, target="llvm", params=params)
    executor = graph_executor.create(graph, lib, tvm.cpu(0))
    executor.set_input(**rest, **inputs)
    executor.run()
    return [executor.get_output(k).numpy() for k in range(executor.get_num_outputs())]


def test_a_float_library_takes_dense_blocks_and_its_own_operators(vendors):
    import tvm
    from tvm import relay

    floatlib = vendor("floatlib")
    rng = np.random.default_rng(0)
    x = relay.var("x", shape=(4, 8))
    weights, bias = relay.var("w", shape=(16, 8)), relay.var("b", shape=(16,))
    hidden = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(x, weights), bias))
    plain = relay.nn.dense(relay.exp(hidden), relay.const(rng.normal(size=(3, 16)).astype("float32")))
    mod = tvm.IRModule.from_expr(relay.Function([x, weights, bias], relay.tanh(relay.add(plain, plain))))
    params = {"w": rng.normal(size=(16, 8)).astype("float32") / 8, "b": rng.normal(size=16).astype("float32")}
    inputs = {"x": rng.normal(size=(4, 8)).astype("float32")}
    expected = run(mod, inputs, params)
    parted = floatlib.partition_for_floatlib(mod, params)
    assert sorted(n for r in regions(parted, "floatlib") for n in composites(r)) == [
        "floatlib.dense", "floatlib.dense_bias"
    ]
    assert [f.attrs["global_symbol"] for f in regions(parted, "floatlib")] == [
        v.name_hint for v in parted.get_global_vars() if v.name_hint != "main"
    ]
    np.testing.assert_allclose(run(parted, inputs)[0], expected[0], rtol=1e-5)


def test_a_float_library_leaves_integers_alone(vendors):
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(4,), dtype="int32")
    mod = vendor("floatlib").partition_for_floatlib(tvm.IRModule.from_expr(relay.add(x, x)))
    assert regions(mod, "floatlib") == []


def int8_block(data, weights, shift=7, **attributes):
    from tvm import relay

    conv = relay.nn.conv2d(data, relay.const(weights), out_dtype="int32", **attributes)
    return relay.cast(relay.clip(relay.right_shift(conv, relay.const(shift, "int32")), -128, 127), "int8")


def test_an_int8_npu_takes_the_blocks_that_fit_it_and_no_others(vendors):
    import tvm
    from tvm import relay

    npu = vendor("int8npu")
    rng = np.random.default_rng(1)

    def weights(*shape):
        return rng.integers(-128, 128, shape).astype("int8")

    x = relay.var("x", shape=(1, 3, 8, 8), dtype="int8")
    first = int8_block(x, weights(8, 3, 3, 3), padding=(1, 1), kernel_size=(3, 3), channels=8)
    second = int8_block(first, weights(8, 8, 1, 1), shift=6, strides=(2, 2), kernel_size=(1, 1), channels=8)
    depthwise = int8_block(second, weights(8, 1, 3, 3), groups=8, padding=(1, 1), kernel_size=(3, 3), channels=8)
    wide = int8_block(depthwise, weights(80, 8, 1, 1), kernel_size=(1, 1), channels=80)
    mod = tvm.IRModule.from_expr(relay.Function([x], wide))
    inputs = {"x": rng.integers(-128, 128, (1, 3, 8, 8)).astype("int8")}
    expected = run(mod, inputs)
    parted = npu.partition_for_int8npu(mod, mod_name="net")
    (region,) = regions(parted, "int8npu")
    assert composites(region) == ["int8npu.qblock", "int8npu.qblock"]
    assert region.attrs["global_symbol"] == "tvmgen_net_int8npu_main_0"
    assert expected[0].std() > 1
    np.testing.assert_array_equal(run(parted, inputs)[0], expected[0])


@pytest.mark.parametrize(("least", "count"), [(1, 2), (2, 1)])
def test_a_gpu_library_rewrites_partitions_and_takes_small_regions_back(vendors, least, count):
    import tvm
    from tvm import relay

    gpulib = vendor("gpulib")
    x = relay.var("x", shape=(2, 6))
    swish = relay.divide(x, relay.add(relay.const(1.0), relay.exp(relay.negative(x))))
    blocked = relay.erf(relay.tanh(relay.add(swish, x)))
    out = relay.Tuple([relay.nn.softmax(blocked, axis=-1), relay.nn.softmax(blocked, axis=0)])
    mod = tvm.IRModule.from_expr(relay.Function([x], out))
    inputs = {"x": np.random.default_rng(2).normal(size=(2, 6)).astype("float32")}
    expected = run(mod, inputs)
    parted = gpulib.partition_for_gpulib(mod, least=least)
    found = regions(parted, "gpulib")
    assert len(found) == count and sum((composites(r) for r in found), []) == ["gpulib.swish"]
    for got, want in zip(run(parted, inputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["graph", "vm", "debug", "aot"])
def test_every_executor_runs_a_partitioned_module(vendors, kind):
    import tvm
    from tvm import relay

    x = relay.var("x", shape=(2, 3))
    mod = tvm.IRModule.from_expr(relay.Function([x], relay.exp(relay.nn.relu(relay.add(x, x)))))
    parted = vendor("floatlib").partition_for_floatlib(mod)
    assert regions(parted, "floatlib")
    data = np.array([[1, -1, 0.5], [0, 2, -3]], "float32")
    result = relay.create_executor(kind, mod=parted, device=tvm.cpu(0), target="llvm").evaluate()(data)
    tvm.testing.assert_allclose(result.numpy(), np.exp(np.maximum(2 * data, 0)), rtol=1e-6)
