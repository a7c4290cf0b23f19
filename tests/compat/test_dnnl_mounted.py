"""A vendor's own ``dnnl.py`` takes the place of ours and runs on our generators."""

import pathlib

import numpy as np
import pytest

from byoc.relay.interpreter import evaluate

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.uniform(-1, 1, shape).astype("float32")


@pytest.fixture
def dnnl(installed):
    from tvm import relay

    assert relay.op.contrib.dnnl.__name__ == "byoc.contrib.onednn.relay"
    installed.mount(pathlib.Path(__file__).parent / "vendors_dnnl")
    from tvm.relay.op.contrib import dnnl

    return dnnl


def prepared(relay, dnnl, mod):
    import tvm
    from tvm.relay.testing.temp_op_attr import TempOpAttr

    steps = [
        relay.transform.CanonicalizeOps(),
        relay.transform.InferType(),
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FoldScaleAxis(),
        relay.transform.SimplifyExpr(),
        relay.transform.FoldConstant(),
        relay.transform.Legalize(),
        relay.transform.FoldConstant(),
    ]
    with tvm.transform.PassContext(opt_level=3):
        with (
            TempOpAttr("nn.conv2d", "FTVMLegalize", dnnl.legalize_group_conv),
            TempOpAttr("nn.conv2d_transpose", "FTVMLegalize", dnnl.legalize_group_conv),
        ):
            mod = tvm.transform.Sequential(steps)(mod)
        with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", dnnl.alter_conv):
            mod = relay.transform.FoldConstant()(relay.transform.AlterOpLayout()(mod))
        mod = dnnl.legalize_qnn_for_dnnl(mod)
        steps = [
            relay.transform.MergeComposite(dnnl.pattern_table()),
            relay.transform.AnnotateTarget("dnnl"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
        return dnnl.prune_dnnl_subgraphs(tvm.transform.Sequential(steps)(mod))


def test_the_vendors_module_is_the_one(dnnl):
    from tvm.relay.op import contrib

    assert dnnl.__file__.endswith("vendors_dnnl/dnnl.py") and contrib.dnnl is dnnl
    assert len(contrib.get_pattern_table("dnnl")) == 6 and contrib.alter_conv is dnnl.alter_conv


@pytest.mark.parametrize("kind", ["graph", "vm"])
@pytest.mark.parametrize(
    ("build", "weight", "groups"),
    [
        ("conv2d", (8, 4, 3, 3), 1),
        ("conv2d", (8, 2, 3, 3), 2),
        ("conv2d", (4, 1, 3, 3), 4),
        ("conv2d_transpose", (4, 4, 3, 3), 2),
    ],
)
def test_convolutions_with_groups_go_through_its_layouts(dnnl, kind, build, weight, groups):
    import tvm
    from tvm import relay

    conv = getattr(relay.nn, build)(relay.var("x", shape=(1, 4, 7, 7)), relay.const(normal(*weight)), groups=groups)
    body = relay.nn.relu(relay.nn.bias_add(conv, relay.const(normal(8 if build != "conv2d" else weight[0]))))
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(body))
    data = normal(1, 4, 7, 7)
    expected = evaluate(mod, {"x": data})
    parted = prepared(relay, dnnl, mod)
    text = parted.astext(show_meta_data=False)
    assert ("GOIHW" in text or "GIOHW" in text) == (groups > 1) and 'Compiler="dnnl"' in text
    found = relay.create_executor(kind, mod=parted, device=tvm.cpu(), target="llvm").evaluate()(x=data, unused=3)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_its_quantized_convolution_is_one_composite(dnnl, bias):
    import tvm
    from tvm import relay

    x, numbers = relay.var("x", shape=(1, 4, 6, 6), dtype="uint8"), [relay.const(v) for v in (0, 0, 0.02, 0.01)]
    weight = relay.const(RNG.integers(-20, 20, (8, 4, 3, 3)).astype("int8"))
    body = relay.qnn.op.conv2d(x, weight, *numbers, (3, 3), 8)
    if bias:
        body = relay.nn.bias_add(body, relay.const(RNG.integers(-99, 99, 8).astype("int32")))
    scales = [relay.const(v) for v in (2.03e-4, 0, 0.011, 0)]
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(relay.qnn.op.requantize(body, *scales, out_dtype="uint8")))
    data = RNG.integers(0, 256, (1, 4, 6, 6)).astype("uint8")
    expected = evaluate(mod, {"x": data}).astype(int)
    parted = prepared(relay, dnnl, mod)
    assert relay.testing.count_ops(parted["main"]) == {} and "dnnl.qnn.conv2d" in parted.astext(show_meta_data=False)
    found = relay.create_executor("graph", mod=parted, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
    assert expected.std() > 5 and (np.abs(found - expected) > 1).sum() == 0
