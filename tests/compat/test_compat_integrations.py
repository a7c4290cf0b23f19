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
        lambda n: (
            names.append(n.op.attrs["Composite"])
            if isinstance(n, relay.Call) and isinstance(n.op, relay.Function)
            else None
        ),
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
        "floatlib.dense",
        "floatlib.dense_bias",
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
    assert len(found) == count and [c for r in found for c in composites(r)] == ["gpulib.swish"]
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


def small_net(relay, rng):
    x = relay.var("data", shape=(1, 3, 16, 16))
    w1, w2 = relay.var("w1", shape=(8, 3, 3, 3)), relay.var("w2", shape=(80, 8, 1, 1))
    body = relay.nn.conv2d(x, w1, padding=(1, 1), channels=8, kernel_size=(3, 3))
    body = relay.nn.relu(relay.nn.bias_add(body, relay.const(rng.normal(size=8).astype("float32"))))
    body = relay.nn.dropout(relay.nn.max_pool2d(body, (2, 2), strides=(2, 2)))
    body = relay.nn.conv2d(body, w2, channels=80, kernel_size=(1, 1))
    body = relay.nn.batch_flatten(relay.nn.global_avg_pool2d(relay.tanh(body)))
    weights = relay.const(rng.normal(size=(5, 80)).astype("float32"))
    body = relay.nn.softmax(relay.nn.dense(body, weights))
    shapes = {"w1": (8, 3, 3, 3), "w2": (80, 8, 1, 1)}
    return relay.Function([x, w1, w2], body), {k: rng.normal(size=v).astype("float32") for k, v in shapes.items()}


def test_a_library_of_another_layout_converts_checks_and_prunes(vendors):
    import tvm
    from tvm import relay

    lib = vendor("nhwclib")
    rng = np.random.default_rng(3)
    func, params = small_net(relay, rng)
    data = rng.normal(size=(1, 3, 16, 16)).astype("float32")
    expected = relay.create_executor("debug", tvm.IRModule.from_expr(func)).evaluate()(data, **params).numpy()
    parted = lib.partition_for_nhwclib(tvm.IRModule.from_expr(func), params, mod_name="net")
    found = regions(parted, "nhwclib")
    # ConvertLayout asks for CanonicalizeOps, by which a bias is an addition
    assert [lib.composite_calls(f) for f in found if composites(f)] == [["nn.conv2d_add_nn.relu_"]]
    names = [v.name_hint for v in parted.get_global_vars() if v.name_hint != "main"]
    assert len(found) == 2 and all(name.startswith("tvmgen_net_nhwclib_main_") for name in names)
    counted = relay.testing.count_ops(parted["main"])
    assert counted["nn.conv2d"] == 1 and counted["nn.dropout"] == 0 and counted["nn.global_avg_pool2d"] == 1
    result = relay.create_executor("debug", parted).evaluate()(data).numpy()
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-6)
    assert not lib.is_library_enabled()


def test_options_reach_the_checks_of_the_patterns(vendors):
    import tvm
    from tvm import relay

    lib = vendor("nhwclib")
    func, params = small_net(relay, np.random.default_rng(3))
    parted = lib.partition_for_nhwclib(tvm.IRModule.from_expr(func), params, max_channels=128)
    assert sum(len(composites(f)) for f in regions(parted, "nhwclib")) == 2
    parted = lib.partition_for_nhwclib(tvm.IRModule.from_expr(func), params, max_channels=4)
    assert sum(len(composites(f)) for f in regions(parted, "nhwclib")) == 0


def test_a_pass_that_is_a_class_legalizes_products_by_channel(vendors):
    import tvm
    from tvm import relay

    lib = vendor("nhwclib")
    x = relay.var("x", shape=(1, 4, 4, 3))
    factor = relay.const(np.array([1, 2, 3], "float32"))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.multiply(x, factor)))
    found = relay.transform.InferType()(tvm.transform.Sequential([lib.LegalizeNhwclib()])(mod))
    assert relay.testing.count_ops(found["main"]) == {"nn.conv2d": 1}
    data = np.arange(48, dtype="float32").reshape(1, 4, 4, 3)
    result = relay.create_executor("debug", found).evaluate()(data).numpy()
    np.testing.assert_allclose(result, data * [1, 2, 3])


def test_predicates_compare_operators_features_and_sections_as_relay_has_them(vendors):
    import tvm
    from tvm import relay

    assert str(relay.op.get("nn.dense")) == "nn.dense" and repr(relay.op.get("nn.dense")) == "Op(nn.dense)"
    assert tvm.target.Target("llvm -mattr=+neon,+v8.2a").mattr == ["+neon", "+v8.2a"]
    assert tvm.target.Target("llvm").mattr == []
    call = relay.split(relay.var("x", shape=(4, 4)), 2).tuple_value
    sections = call.attrs["indices_or_sections"]
    assert isinstance(sections, tvm.tir.IntImm) and (sections.value, sections.dtype) == (2, "int32")
    assert relay.split(relay.var("x", shape=(4, 4)), (1, 3)).tuple_value.attrs.indices_or_sections == (1, 3)


def test_an_optimize_hook_converts_the_weights_of_its_composites(vendors):
    import tvm
    from tvm import relay
    from tvm.relay.dataflow_pattern import is_constant, is_op, wildcard
    from tvm.relay.transform import AnnotateTarget, ConvertLayout, FoldConstant, InferType, MergeComposite

    weights = np.arange(3 * 3 * 2 * 4, dtype="float32").reshape(3, 3, 2, 4)
    options = {"channels": 4, "kernel_size": (3, 3), "data_layout": "NHWC", "kernel_layout": "HWIO"}
    out = relay.nn.conv2d(relay.var("x", shape=(1, 6, 6, 2)), relay.const(weights), **options)
    table = [("ohwilib.conv", is_op("nn.conv2d")(wildcard(), is_constant()))]
    convert = tvm.transform.Sequential([ConvertLayout({"nn.conv2d": ["NHWC", "OHWI"]}), FoldConstant()])
    tvm.register_func("relay.ext.ohwilib.optimize", convert)
    try:
        steps = [InferType(), MergeComposite(table), AnnotateTarget("ohwilib"), relay.transform.PartitionGraph()]
        with tvm.transform.PassContext(opt_level=3):
            mod = tvm.transform.Sequential(steps)(tvm.IRModule.from_expr(out))
    finally:
        tvm._ffi.registry.remove_global_func("relay.ext.ohwilib.optimize")
    region = mod["tvmgen_default_ohwilib_main_0"]
    assert composites(region) == ["ohwilib.conv"]
    conv = region.body.op.body
    assert conv.op.name == "nn.conv2d" and conv.attrs.kernel_layout == "OHWI"
    np.testing.assert_array_equal(conv.args[1].data.numpy(), weights.transpose(3, 0, 1, 2))
