"""``relay.ext.dnnl``: regions of oneDNN's integration compute right in float32, bfloat16, float16 and int8."""

import numpy as np
import pytest

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


def endings(relay):
    one = relay.const(1.0)

    def gelu(x):
        return x * (relay.erf(x / relay.const(2**0.5)) + one) * relay.const(0.5)

    return {
        "relu": relay.nn.relu,
        "tanh": relay.tanh,
        "sigmoid": relay.sigmoid,
        "clip": lambda x: relay.clip(x, -0.5, 0.5),
        "gelu": gelu,
        "swish": lambda x: x * relay.sigmoid(x),
        "mish": lambda x: x * relay.tanh(relay.log(relay.exp(x) + one)),
        None: lambda x: x,
    }


def weighted(relay):
    x1, x2, x3 = (relay.var("x", shape=(1, 4, *(6,) * n)) for n in (1, 2, 3))
    w1, w2, w3 = (relay.const(normal(4, 4, *(3,) * n)) for n in (1, 2, 3))
    return {
        "conv1d": lambda: relay.nn.conv1d(x1, w1, padding=1),
        "conv2d": lambda: relay.nn.conv2d(x2, w2, padding=(1, 1)),
        "conv3d": lambda: relay.nn.conv3d(x3, w3),
        "deconv2d": lambda: relay.nn.conv2d_transpose(x2, w2, strides=(2, 2)),
        "deconv3d": lambda: relay.nn.conv3d_transpose(x3, w3),
        "dense": lambda: relay.nn.dense(relay.var("x", shape=(3, 8)), relay.const(normal(4, 8))),
    }


def parted(relay, body, prune=True):
    import tvm
    from tvm.relay.op.contrib import dnnl

    steps = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(dnnl.pattern_table()),
        relay.transform.AnnotateTarget("dnnl"),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
    mod = tvm.transform.Sequential(steps)(tvm.IRModule.from_expr(body))
    return dnnl.prune_dnnl_subgraphs(mod) if prune else mod


def composites(relay, mod):
    names = []
    for func in mod.functions.values():
        relay.analysis.post_order_visit(
            func,
            lambda n: (
                names.append(str(n.attrs["Composite"]))
                if isinstance(n, relay.Function) and "Composite" in n.attrs
                else None
            ),
        )
    return names


def run(relay, kind, mod, inputs):
    import tvm

    return relay.create_executor(kind, mod=mod, device=tvm.cpu(), target="llvm").evaluate()(**inputs).numpy()


def test_the_table_and_the_target_are_there_without_an_import():
    import subprocess
    import sys

    script = (
        "import byoc.compat.tvm as c; c.install(); import tvm; from tvm import relay\n"
        "print(len(relay.op.contrib.get_pattern_table('dnnl')) > 90)\n"
        "x = relay.var('x', shape=(1, 3, 8, 8)); y = relay.nn.conv2d(x, relay.var('w', shape=(4, 3, 3, 3)))\n"
        "mod = relay.transform.AnnotateTarget('dnnl')(relay.transform.InferType()(tvm.IRModule.from_expr(y)))\n"
        "print('compiler_begin' in mod.astext(), tvm.get_global_func('relay.ext.dnnl', True) is not None)\n"
        "print(relay.op.contrib.dnnl.pattern_table()[0][0])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True", "True", "dnnl.qnn.conv2d"]


def test_the_rows_of_the_table(relay):
    names = [row[0] for row in relay.op.contrib.get_pattern_table("dnnl")]
    every = [f"_{e}" for e in ("relu", "tanh", "sigmoid", "clip", "gelu", "swish", "mish")]
    expected = {
        f"dnnl.{w}{b}{e}"
        for w in ("conv1d", "conv2d", "conv3d", "deconv2d", "deconv3d", "dense")
        for b in ("_bias", "")
        for e in (*every, "")
        if b or e
    }
    expected |= {"dnnl.conv2d_bias_sum_relu", "dnnl.conv2d_bias_sum", "dnnl.dense_bias_sum"}
    assert set(names) == expected | {"dnnl.qnn.conv2d", "dnnl.qnn.dense"} and len(names) == len(set(names))


@pytest.mark.parametrize("ending", ["relu", "tanh", "sigmoid", "clip", "gelu", "swish", "mish", None])
@pytest.mark.parametrize("name", ["conv2d", pytest.param("dense", marks=pytest.mark.slow)])
def test_every_ending_behind_a_bias_that_is_a_parameter(relay, name, ending):
    product = weighted(relay)[name]()
    channels = (4,) if name == "dense" else (4, 1, 1)
    body = endings(relay)[ending](relay.add(product, relay.var("b", shape=channels)))
    check(relay, body, f"dnnl.{name}_bias" + (f"_{ending}" if ending else ""))


def check(relay, body, name, kinds=("graph", "vm")):
    """Cut, one composite *name*, and the numbers of the whole in float64 on every executor."""
    import tvm

    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    cut = parted(relay, body)
    assert composites(relay, cut) == ([name] if name else [])
    assert any(f.attrs.get("Compiler") == "dnnl" for f in cut.functions.values())
    inputs = {p.name_hint: normal(*(int(d) for d in p.checked_type.shape)) for p in mod["main"].params}
    expected = exactly(relay, mod, inputs)
    for kind in kinds:
        np.testing.assert_allclose(run(relay, kind, cut, inputs), expected, rtol=1e-5, atol=1e-5)
    return mod, cut, inputs, expected


def exactly(relay, mod, inputs):
    """*mod* computed in float64, by the reference kernels."""
    from tvm.relay.expr_functor import ExprMutator

    class Wide(ExprMutator):
        def visit_var(self, var):
            if var not in self.memo_map:
                self.memo_map[var] = relay.var(var.name_hint, shape=var.checked_type.shape, dtype="float64")
            return self.memo_map[var]

        def visit_constant(self, const):
            value = const.data.numpy()
            return relay.const(value.astype("float64"), "float64") if value.dtype == "float32" else const

    main = mod["main"]
    wide = Wide()
    body = wide.visit(main.body)
    func = relay.Function([wide.visit(p) for p in main.params], body)
    return relay.create_executor("debug").evaluate(func)(**{k: v.astype("float64") for k, v in inputs.items()}).numpy()


@pytest.mark.parametrize("name", ["conv1d", "conv2d", "conv3d", "deconv2d", "deconv3d", "dense"])
def test_every_weighted_operator(relay, name):
    check(relay, relay.nn.relu(weighted(relay)[name]()), f"dnnl.{name}_relu", ("graph",))


@pytest.mark.parametrize("name", ["conv2d", "dense"])
def test_a_sum_behind_a_bias(relay, name):
    product = weighted(relay)[name]()
    out = relay.transform.InferTypeLocal(product)
    biased = relay.add(product, relay.const(normal(4, *(1,) * (len(out.shape) - 2))))
    check(relay, relay.add(biased, relay.var("y", shape=out.shape)), f"dnnl.{name}_bias_sum", ("graph",))
    again = relay.add(relay.var("y", shape=out.shape), relay.add(relay.var("b", shape=(4, *out.shape[2:])), product))
    if name == "conv2d":  # what is added first has more than a number for each channel: no bias of a sum
        assert composites(relay, parted(relay, again)) == ["dnnl.conv2d_bias"]


SINGLE = {
    "max_pool2d": lambda relay, x: relay.nn.max_pool2d(x, (3, 3), (2, 2), padding=(1, 1)),
    "avg_pool2d": lambda relay, x: relay.nn.avg_pool2d(x, (3, 3), padding=(1, 1), count_include_pad=False),
    "global_avg_pool2d": lambda relay, x: relay.nn.global_avg_pool2d(x),
    "softmax": lambda relay, x: relay.nn.softmax(x),
    "leaky_relu": lambda relay, x: relay.nn.leaky_relu(x, 0.1),
    "abs": lambda relay, x: relay.abs(x),
    "exp": lambda relay, x: relay.exp(x),
    "tanh": lambda relay, x: relay.tanh(x),
    "multiply": lambda relay, x: relay.multiply(x, x),
    "layer_norm": lambda relay, x: relay.nn.layer_norm(x, relay.const(normal(6)), relay.const(normal(6))),
}


@pytest.mark.parametrize("name", list(SINGLE))
def test_single_operators(relay, name):
    check(relay, SINGLE[name](relay, relay.var("x", shape=(1, 4, 6, 6))), None, ("graph",))


@pytest.mark.parametrize("kind", ["graph", "vm"])
@pytest.mark.parametrize("name", ["conv2d", "dense", "max_pool2d", "avg_pool2d", "global_avg_pool2d", "softmax"])
def test_bfloat16_regions_are_right_to_its_eight_bits(relay, name, kind):
    import tvm

    body = SINGLE[name](relay, relay.var("x", shape=(1, 4, 6, 6))) if name in SINGLE else weighted(relay)[name]()
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    narrow = relay.transform.ToMixedPrecision("bfloat16")(mod)
    cut = parted(relay, narrow["main"].body)
    inputs = {p.name_hint: normal(*(int(d) for d in p.checked_type.shape)) for p in mod["main"].params}
    expected = exactly(relay, mod, inputs)
    found = run(relay, kind, cut, inputs).astype("float64")
    assert np.abs(found - expected).max() <= 0.02 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("engine", ["C", "JSON"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_pools_of_every_float_run_on_both_engines(relay, engine, dtype, monkeypatch):
    import tvm

    from byoc.codegen.json.backend import JsonBackend
    from byoc.contrib.onednn.relay import region

    if engine == "JSON":
        monkeypatch.setattr(region, "CBackend", JsonBackend)
    x = relay.var("x", shape=(1, 4, 9, 9), dtype=dtype)
    for pool in (relay.nn.max_pool2d, relay.nn.avg_pool2d):
        cut = parted(relay, pool(x, (3, 3), (2, 2), padding=(1, 1)))
        data = normal(1, 4, 9, 9)
        wide = relay.var("x", shape=(1, 4, 9, 9), dtype="float64")
        reference = relay.Function([wide], pool(wide, (3, 3), (2, 2), padding=(1, 1)))
        given = tvm.nd.array(data.astype(np.dtype(dtype) if dtype != "bfloat16" else bfloat16()))
        expected = relay.create_executor("debug").evaluate(reference)(given.numpy().astype("float64")).numpy()
        found = run(relay, "graph", cut, {"x": given})
        np.testing.assert_allclose(found.astype("float64"), expected, rtol=0, atol=0.01)


def bfloat16():
    return pytest.importorskip("ml_dtypes").bfloat16


@pytest.mark.parametrize("kind", ["graph", "vm"])
def test_int8_regions_are_exact(relay, kind):
    x, weight = relay.var("x", shape=(2, 8), dtype="int8"), RNG.integers(-128, 128, (4, 8)).astype("int8")
    dense = relay.nn.dense(x, relay.const(weight), out_dtype="int32")
    cut = parted(relay, relay.add(dense, relay.const(np.arange(4, dtype="int32"))))
    assert composites(relay, cut) == ["dnnl.dense_bias"]
    data = RNG.integers(-128, 128, (2, 8)).astype("int8")
    expected = data.astype(int) @ weight.T.astype(int) + np.arange(4)
    np.testing.assert_array_equal(run(relay, kind, cut, {"x": data}), expected)


def test_a_region_of_unknown_size_runs_on_the_virtual_machine(relay):
    import tvm

    x = relay.var("x", shape=(relay.Any(), 8))
    weight = normal(4, 8)
    cut = parted(relay, relay.nn.relu(relay.nn.dense(x, relay.const(weight))))
    vm = relay.create_executor("vm", mod=cut, device=tvm.cpu(), target="llvm").evaluate()
    for rows in (1, 5):
        data = normal(rows, 8)
        np.testing.assert_allclose(vm(data).numpy(), np.maximum(data @ weight.T, 0), rtol=1e-5, atol=1e-6)


def test_a_region_that_is_written_by_hand(relay):
    import tvm

    a, w = relay.var("a", shape=(1, 8, 6, 6)), relay.var("w", shape=(4, 8, 3, 3))
    region = relay.Function([a, w], relay.nn.relu(relay.nn.conv2d(a, w)))
    region = region.with_attr("Primitive", tvm.tir.IntImm("int32", 1)).with_attr("Compiler", "dnnl")
    name = relay.GlobalVar("dnnl_0")
    mod = tvm.IRModule({name: region.with_attr("global_symbol", "dnnl_0")})
    mod = relay.transform.InferType()(mod)
    x, v = relay.var("x", shape=(1, 8, 6, 6)), relay.var("v", shape=(4, 8, 3, 3))
    mod["main"] = relay.Function([x, v], name(x, v))
    mod = relay.transform.InferType()(mod)
    inputs = {"x": normal(1, 8, 6, 6), "v": normal(4, 8, 3, 3)}
    plain = tvm.IRModule.from_expr(relay.Function([x, v], relay.nn.relu(relay.nn.conv2d(x, v))))
    for kind in ("graph", "vm"):
        np.testing.assert_allclose(
            run(relay, kind, mod, inputs), run(relay, "debug", plain, inputs), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("kind", ["graph", "vm", "debug", "aot"])
def test_keywords_that_name_no_parameter_are_passed_over(relay, kind):
    import tvm

    x = relay.var("x", shape=(2,))
    call = relay.create_executor(
        kind, mod=tvm.IRModule.from_expr(relay.Function([x], x + x)), device=tvm.cpu(), target="llvm"
    ).evaluate()
    ones = np.ones(2, "float32")
    np.testing.assert_array_equal(call(x=ones, extra=np.zeros(9)).numpy(), 2 * ones)
    np.testing.assert_array_equal(call(ones, weight=3).numpy(), 2 * ones)


def test_the_map_of_a_rewrite_takes_its_default_by_keyword(relay):
    from tvm.relay.dataflow_pattern import DFPatternCallback, is_op, rewrite, wildcard

    class Rewrite(DFPatternCallback):
        def __init__(self):
            super().__init__()
            self.x, self.other = wildcard(), wildcard()
            self.pattern = is_op("nn.relu")(self.x)

        def callback(self, pre, post, node_map):
            assert node_map.get(self.other, default=["absent"])[0] == "absent"
            assert node_map.get(self.other) is None
            return relay.tanh(node_map.get(self.x, default=None)[0])

    out = rewrite(Rewrite(), relay.nn.relu(relay.var("x", shape=(2,))))
    assert out.op.name == "tanh"
