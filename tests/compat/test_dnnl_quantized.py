"""Quantized blocks for oneDNN: rewritten, cut into one composite, and computed with the numbers of the operators."""

import numpy as np
import pytest

from byoc.relay.interpreter import evaluate

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)
OUT = 12


def product(relay, layout="NCHW", groups=1, padding=(1, 1), zero=3, weight_zero=0):
    """A quantized product, the axis of its channels."""
    zeros, scales = (relay.const(zero), relay.const(weight_zero)), (relay.const(0.02), relay.const(0.01))
    if layout == "NC":
        x, weight = relay.var("x", shape=(4, 32), dtype="uint8"), RNG.integers(-20, 20, (OUT, 32)).astype("int8")
        return relay.qnn.op.dense(x, relay.const(weight), *zeros, *scales, units=OUT), 1
    sizes, kernel = dict(N=2, C=8, H=7, W=6), dict(O=OUT, I=8 // groups, H=3, W=3)
    kernel_layout = "OIHW" if layout == "NCHW" else "HWIO"
    weight = RNG.integers(-20, 20, [kernel[a] for a in kernel_layout]).astype("int8")
    x = relay.var("x", shape=[sizes[a] for a in layout], dtype="uint8")
    conv = relay.qnn.op.conv2d(
        x,
        relay.const(weight),
        *zeros,
        *scales,
        (3, 3),
        OUT,
        padding=padding,
        groups=groups,
        data_layout=layout,
        kernel_layout=kernel_layout,
    )
    return conv, layout.index("C")


def block(relay, bias=True, total=False, clip=True, per_channel=False, **options):
    """The product, bias, requantization, clip and cast; with *total* another tensor added."""
    body, axis = product(relay, **options)
    if bias:
        body = relay.nn.bias_add(body, relay.const(RNG.integers(-500, 500, OUT).astype("int32")), axis=axis)
    scale = np.linspace(1e-4, 2e-4, OUT).astype("float32") if per_channel else np.float32(2.03e-4)
    numbers = (relay.const(scale), relay.const(0), relay.const(np.float32(0.01)), relay.const(7))
    body = relay.qnn.op.requantize(body, *numbers, out_dtype="int32", axis=axis)
    body = relay.cast(relay.clip(body, 0.0, 255.0) if clip else body, "uint8") if clip else body
    if total:
        other = relay.var("y", shape=relay.transform.InferTypeLocal(body).shape, dtype="uint8")
        scales = [relay.const(v) for v in (0.02, 4, 0.03, 5, 0.04, 6)]
        body = relay.clip(relay.qnn.op.add(body, other, *scales), 0.0, 255.0)
    return body


def cut(relay, dnnl, mod):
    import tvm

    steps = [
        relay.transform.MergeComposite(dnnl.pattern_table()),
        relay.transform.AnnotateTarget("dnnl"),
        relay.transform.MergeCompilerRegions(),
        relay.transform.PartitionGraph(),
    ]
    return tvm.transform.Sequential(steps)(dnnl.legalize_qnn_for_dnnl(mod))


CASES = [
    {},
    {"layout": "NHWC"},
    {"groups": 2},
    {"padding": (0, 0)},
    {"per_channel": True},
    {"layout": "NC"},
    {"bias": False, "zero": 0},
    {"total": True},
    {"total": True, "layout": "NHWC", "per_channel": True},
    {"total": True, "layout": "NC"},
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case)) or "plain")
def test_a_quantized_block_is_one_composite_with_its_numbers(relay, dnnl, case):
    import tvm

    body = block(relay, **case)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    parted = cut(relay, dnnl, mod)
    main = relay.testing.count_ops(parted["main"])
    assert main == {} and len(parted.functions) == 2
    (region,) = [f for v, f in parted.functions.items() if v.name_hint != "main"]
    name = "dnnl.qnn.dense" if case.get("layout") == "NC" else "dnnl.qnn.conv2d"
    assert region.body.op.attrs["Composite"] == name
    inputs = {
        v.name_hint: RNG.integers(0, 256, [int(d) for d in v.type_annotation.shape]).astype("uint8")
        for v in mod["main"].params
    }
    expected = evaluate(mod, inputs).astype(int)
    assert expected.std() > 5
    for kind in ("graph", "vm"):
        run = relay.create_executor(kind, mod=parted, device=tvm.cpu(), target="llvm").evaluate()
        found = run(**inputs).numpy().astype(int)
        # a sum is rounded once instead of twice; a product alone differs in a rounding of float32 at most
        wrong = found != expected
        assert np.abs(found - expected).max() <= 1 and wrong.mean() < (0.4 if case.get("total") else 0.01)


def test_the_last_cast_rounds_and_saturates(relay, dnnl):
    import tvm

    x, weight = relay.var("x", shape=(1, 4), dtype="uint8"), np.eye(4, dtype="int8")
    dense = relay.qnn.op.dense(x, relay.const(weight), *map(relay.const, (0, 0, 1.0, 1.0)), units=4)
    body = relay.cast(dense, "float32")
    body = relay.clip(relay.multiply(body, relay.const(1.3)), -1e4, 1e4)
    body = relay.cast(relay.add(body, relay.const(-3.0)), "uint8")
    steps = [
        relay.transform.InferType(),
        relay.transform.MergeComposite(dnnl.pattern_table()),
        relay.transform.AnnotateTarget("dnnl"),
        relay.transform.PartitionGraph(),
    ]
    mod = tvm.transform.Sequential(steps)(tvm.IRModule.from_expr(body))
    assert len(mod.functions) == 2
    run = relay.create_executor("graph", mod=mod, device=tvm.cpu(), target="llvm").evaluate()
    found = run(np.array([[1, 2, 100, 255]], "uint8")).numpy()
    np.testing.assert_array_equal(found, [[0, 0, 127, 255]])  # -1.7, -0.4, 127, 328.5


@pytest.mark.parametrize("arguments", [{"weight_zero": 2}, {"zero": 3, "total": True, "last": (3.0, 200.0)}])
def test_a_quantized_block_that_would_give_other_numbers_stays(relay, dnnl, arguments):
    import tvm

    last = arguments.pop("last", None)
    body = block(relay, **arguments)
    if last:
        body = relay.clip(body.args[0], *last)
    found = dnnl.legalize_qnn_for_dnnl(tvm.IRModule.from_expr(body))
    kept = relay.testing.count_ops(found["main"])
    assert kept["qnn.conv2d"] == 1 and kept.get("qnn.add", 0) == (1 if last else 0)
    assert "qnn.requantize" in kept or last
