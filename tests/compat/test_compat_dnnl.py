"""The graph's side of oneDNN: its composites, its rewrites with the same numbers, small regions put back."""

import numpy as np
import pytest

from byoc.relay.interpreter import evaluate

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.normal(size=shape).astype("float32")


def partitioned(relay, dnnl, body):
    """The regions and composites of *body* cut for oneDNN, and what is left after pruning."""
    import tvm

    seq = tvm.transform.Sequential(
        [
            relay.transform.CanonicalizeOps(),
            relay.transform.InferType(),
            relay.transform.MergeComposite(dnnl.pattern_table()),
            relay.transform.AnnotateTarget("dnnl"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
    )
    with tvm.transform.PassContext(opt_level=3):
        return dnnl.prune_dnnl_subgraphs(seq(tvm.IRModule.from_expr(body)))


def composites(relay, mod):
    names = []

    def visit(node):
        if isinstance(node, relay.Function) and "Composite" in node.attrs:
            names.append(node.attrs["Composite"])

    for func in mod.functions.values():
        relay.analysis.post_order_visit(func, visit)
    return names


def gelu(relay, x):
    factor = relay.add(relay.erf(relay.divide(x, relay.const(2**0.5))), relay.const(1.0))
    return relay.multiply(relay.multiply(x, factor), relay.const(0.5))


def mish(relay, x):
    return relay.multiply(x, relay.tanh(relay.log(relay.add(relay.exp(x), relay.const(1.0)))))


def test_the_longest_composite_is_taken(relay, dnnl):
    x, y = relay.var("x", shape=(1, 3, 8, 8)), relay.var("y", shape=(1, 4, 8, 8))
    conv = relay.nn.conv2d(x, relay.const(normal(4, 3, 3, 3)), padding=(1, 1))
    biased = relay.nn.bias_add(conv, relay.const(normal(4)))
    flat = relay.nn.batch_flatten(relay.nn.relu(relay.add(biased, y)))
    dense = relay.add(relay.nn.dense(flat, relay.const(normal(5, 256))), relay.const(normal(5)))
    mod = partitioned(relay, dnnl, gelu(relay, dense))
    assert composites(relay, mod) == ["dnnl.conv2d_bias_sum_relu", "dnnl.dense_bias_gelu"]


@pytest.mark.parametrize(
    ("ending", "name"),
    [
        (lambda relay, c: relay.tanh(c), "dnnl.conv2d_tanh"),
        (lambda relay, c: relay.clip(c, 0, 6), "dnnl.conv2d_clip"),
        (lambda relay, c: relay.multiply(c, relay.sigmoid(c)), "dnnl.conv2d_swish"),
        (lambda relay, c: gelu(relay, c), "dnnl.conv2d_gelu"),
        (lambda relay, c: mish(relay, c), "dnnl.conv2d_mish"),
        (lambda relay, c: relay.exp(c), None),
    ],
)
def test_endings_without_a_bias(relay, dnnl, ending, name):
    conv = relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 8)), relay.const(normal(4, 3, 3, 3)))
    mod = partitioned(relay, dnnl, ending(relay, conv))
    assert composites(relay, mod) == ([name] if name else [])
    assert [f.attrs["Compiler"] for v, f in mod.functions.items() if v.name_hint != "main"] == ["dnnl"]


def test_light_regions_beside_others_go_back_and_a_single_one_stays(relay, dnnl):
    x = relay.var("x", shape=(1, 8))
    light = relay.nn.relu(relay.add(x, x))
    assert len(partitioned(relay, dnnl, light).functions) == 2
    heavy = relay.nn.dense(relay.erf(light), relay.const(normal(4, 8)))
    mod = partitioned(relay, dnnl, heavy)
    assert len(mod.functions) == 2 and "nn.relu" in relay.testing.count_ops(mod["main"])


@pytest.mark.parametrize(("dtype", "taken"), [("int8", True), ("int32", True), ("bfloat16", True), ("int64", False)])
def test_every_dtype_but_int64_is_taken(relay, dnnl, dtype, taken):
    narrow = relay.var("n", shape=(1, 8), dtype=dtype)
    weights = relay.var("w", shape=(4, 8), dtype=dtype)
    out = {"int8": "int32"}.get(dtype, dtype)
    assert (len(partitioned(relay, dnnl, relay.nn.dense(narrow, weights, out_dtype=out)).functions) == 2) == taken


def test_a_pool_whose_last_window_hangs_over_is_not_taken(relay, dnnl):
    x = relay.var("x", shape=(1, 3, 8, 8))
    for ceil_mode, count in ((False, 2), (True, 1)):
        pooled = relay.nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=ceil_mode)
        assert len(partitioned(relay, dnnl, pooled).functions) == count


def same_numbers(before, after, **inputs):
    np.testing.assert_allclose(evaluate(after, inputs), evaluate(before, inputs), rtol=1e-4, atol=1e-5)


def layer_norm_in_parts(relay, x, gamma, beta, form):
    centred = relay.subtract(x, relay.mean(x, axis=-1, keepdims=True))
    square = relay.multiply(centred, centred) if form == "product" else relay.power(centred, relay.const(2.0))
    spread = relay.add(relay.mean(square, axis=-1, keepdims=True), relay.const(1e-5))
    if form == "rsqrt":
        scaled = relay.multiply(centred, relay.rsqrt(spread))
    else:
        scaled = relay.divide(centred, relay.sqrt(spread))
    return relay.add(relay.multiply(scaled, gamma), beta)


@pytest.mark.parametrize("form", ["power", "product", "rsqrt"])
def test_a_layer_norm_is_found_in_its_parts(relay, dnnl, form):
    import tvm

    x = relay.var("x", shape=(2, 3, 8))
    body = layer_norm_in_parts(relay, x, relay.const(normal(8)), relay.const(normal(8)), form)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    found = relay.transform.InferType()(dnnl.rewrite_layer_norm(mod))
    assert relay.testing.count_ops(found["main"]) == {"nn.layer_norm": 1}
    assert relay.testing.count_ops(mod["main"])["mean"] == 2  # what was given stays
    same_numbers(mod, found, x=normal(2, 3, 8))


def test_what_looks_like_a_layer_norm_and_is_none_stays(relay, dnnl):
    import tvm

    x = relay.var("x", shape=(2, 3, 8))
    centred = relay.subtract(x, relay.mean(x, axis=-1, keepdims=True))
    cubes = relay.mean(relay.power(centred, relay.const(3.0)), axis=-1, keepdims=True)
    body = relay.divide(centred, relay.sqrt(relay.add(cubes, relay.const(1e-5))))
    body = relay.add(relay.multiply(body, relay.const(normal(8))), relay.const(normal(8)))
    wide = layer_norm_in_parts(relay, x, relay.const(normal(3, 8)), relay.const(normal(8)), "power")
    for one in (body, wide):
        mod = relay.transform.InferType()(tvm.IRModule.from_expr(one))
        assert "nn.layer_norm" not in relay.testing.count_ops(dnnl.rewrite_layer_norm(mod)["main"])


@pytest.mark.parametrize("bias_first", [True, False])
@pytest.mark.parametrize("with_gelu", [True, False])
def test_a_reshape_moves_behind_a_dense_block(relay, dnnl, with_gelu, bias_first):
    import tvm

    x, bias = relay.var("x", shape=(6, 8)), relay.var("bias", shape=(4,))
    split = relay.reshape(relay.nn.dense(x, relay.const(normal(4, 8))), (2, 3, 4))
    biased = relay.add(*((bias, split) if bias_first else (split, bias)))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(gelu(relay, biased) if with_gelu else biased))
    found = relay.transform.InferType()(dnnl.rewrite_dense_bias_gelu_reshape_last(mod))
    assert found["main"].body.op.name == "reshape" and tuple(found["main"].ret_type.shape) == (2, 3, 4)
    same_numbers(mod, found, x=normal(6, 8), bias=normal(4))
