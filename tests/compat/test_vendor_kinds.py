"""Integrations of each kind of vendor, as their authors write them: whole networks and a quantised block are cut."""

import importlib
from collections import Counter

import numpy as np
import pytest

RNG = np.random.default_rng(0)
# integration -> what partitions, the compiler's name
KINDS = {
    "arm_compute_lib": "arm_compute_lib",
    "bnns": "bnns",
    "clml": "clml",
    "cublas": "cublas",
    "cudnn": "cudnn",
    "cutlass": "cutlass",
    "dnnl": "dnnl",
    "tensorrt": "tensorrt",
    "coreml": "coremlcompiler",
    "cmsisnn": "cmsis-nn",
    "mrvl": "mrvl",
}


def partition(name, mod, params):
    import tvm
    from tvm import relay

    module = importlib.import_module(f"tvm.relay.op.contrib.{name}")
    if name != "dnnl":
        return getattr(module, f"partition_for_{name}")(mod, params)
    mod["main"] = relay.build_module.bind_params_by_name(mod["main"], params or {})
    steps = [
        relay.transform.CanonicalizeOps(),
        relay.transform.InferType(),
        relay.transform.SimplifyInference(),
        relay.transform.FoldConstant(),
        relay.transform.FoldScaleAxis(),
        relay.transform.FoldConstant(),
    ]
    with tvm.transform.PassContext(opt_level=3):
        mod = module.legalize_qnn_for_dnnl(tvm.transform.Sequential(steps)(mod))
        steps = [
            relay.transform.MergeComposite(module.pattern_table()),
            relay.transform.AnnotateTarget("dnnl"),
            relay.transform.MergeCompilerRegions(),
            relay.transform.PartitionGraph(),
        ]
        return module.prune_dnnl_subgraphs(tvm.transform.Sequential(steps)(mod))


def inside(mod, compiler):
    """The composites and the operators of their own in the regions of *compiler*, counted."""
    from tvm.relay.expr_functor import ExprVisitor

    class Count(ExprVisitor):
        def __init__(self):
            super().__init__()
            self.names = Counter()

        def visit_call(self, call):
            if hasattr(call.op, "body"):
                self.names[str(call.op.attrs["Composite"])] += 1
            else:
                self.names[str(call.op)] += 1
            for arg in call.args:
                self.visit(arg)

    counted = Counter()
    for func in mod.functions.values():
        if func.attrs and func.attrs.get("Compiler") == compiler:
            visitor = Count()
            visitor.visit(func.body)
            counted += visitor.names
    return counted


@pytest.fixture
def enabled(vendors, installed):
    installed.emulate("tensorrt")
    return vendors


def network(name):
    from tvm import relay

    if name == "resnet":
        return relay.testing.resnet.get_workload(num_layers=18, image_shape=(3, 32, 32), num_classes=10)
    return relay.testing.mobilenet.get_workload(image_shape=(3, 32, 32), num_classes=10)


def quantized():
    from tvm import relay

    x = relay.var("x", shape=(1, 6, 6, 4), dtype="int8")
    numbers = [relay.const(v) for v in (3, 0, 0.02, 0.01)]
    weight = relay.const(RNG.integers(-20, 20, (3, 3, 4, 8)).astype("int8"))
    conv = relay.qnn.op.conv2d(x, weight, *numbers, (3, 3), 8, data_layout="NHWC", kernel_layout="HWIO")
    biased = relay.nn.bias_add(conv, relay.const(RNG.integers(-99, 99, 8).astype("int32")), axis=3)
    scales = [relay.const(v) for v in (2.03e-4, 0, 0.05, -4)]
    return relay.clip(relay.qnn.op.requantize(biased, *scales, axis=3, out_dtype="int8"), -128, 127)


WITHOUT_FLOATS = ("cmsisnn",)


@pytest.mark.parametrize("model", ["resnet", pytest.param("mobilenet", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", list(KINDS))
def test_a_network_is_cut_and_gives_its_numbers(enabled, name, model):
    from tvm import relay

    mod, params = network(model)
    data = RNG.uniform(0, 1, (1, 3, 32, 32)).astype("float32")
    expected = relay.create_executor("debug", mod=mod).evaluate()(data, **params).numpy()
    parted = partition(name, mod, params)
    taken = inside(parted, KINDS[name])
    heavy = sum(n for k, n in taken.items() if "conv2d" in k or "dense" in k or "fc_" in k)
    convolutions = {"resnet": 21, "mobilenet": 27}[model]
    if name in WITHOUT_FLOATS:
        assert not taken
    elif name == "cublas":
        assert taken == {"cublas.dense": 1}
    elif name == "cudnn":
        assert heavy == convolutions and taken["cudnn.softmax"] == 1
    elif name == "coreml":
        assert taken["nn.conv2d"] == convolutions
    elif name == "cutlass":  # no kernels for depthwise convolutions
        assert heavy == (22 if model == "resnet" else 27 - 13 + 1)
    else:
        assert heavy >= convolutions
    found = relay.create_executor("debug", mod=parted).evaluate()(data).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", list(KINDS))
def test_a_quantised_convolution_is_taken_by_those_that_have_it(enabled, name):
    import tvm
    from tvm import relay

    mod = relay.transform.InferType()(tvm.IRModule.from_expr(quantized()))
    data = RNG.integers(-128, 128, (1, 6, 6, 4)).astype("int8")
    expected = relay.create_executor("debug", mod=mod).evaluate()(data).numpy()
    parted = partition(name, mod, None)
    taken = inside(parted, KINDS[name])
    composites = {
        "arm_compute_lib": "arm_compute_lib.qnn_conv2d",
        "cmsisnn": "cmsis-nn.qnn_conv2d",
        "dnnl": "dnnl.qnn.conv2d",
    }
    assert [k for k in taken if "conv2d" in k] == ([composites[name]] if name in composites else [])
    kind = "graph" if name == "dnnl" else "debug"  # that generator rounds the last cast, as the library does
    found = relay.create_executor(kind, mod=parted, device=tvm.cpu(), target="llvm").evaluate()(data).numpy()
    np.testing.assert_array_equal(found, expected)


def test_the_names_of_the_package_are_those_of_the_mounted_modules(enabled, installed, tmp_path):
    from tvm.relay.op import contrib

    assert contrib.partition_for_clml is importlib.import_module("tvm.relay.op.contrib.clml").partition_for_clml
    assert contrib.arm_compute_lib.__file__ == str(enabled / "arm_compute_lib.py")
    assert contrib.partition_for_tensorrt.__module__ == "tvm.relay.op.contrib.tensorrt"
    assert contrib.partition_for_bnns.__module__ == "byoc.contrib.bnns"
    table = (
        "from tvm.relay.op.contrib.register import register_pattern_table\n@register_pattern_table('bnns')\n"
        "def pattern_table(): return []\ndef partition_for_bnns(mod): return 'mounted'\n"
    )
    (tmp_path / "bnns.py").write_text(table)
    installed.mount(tmp_path)
    assert contrib.partition_for_bnns(None) == "mounted" and contrib.get_pattern_table("bnns") == []
    from tvm.relay.op.contrib import bnns, partition_for_bnns

    assert bnns.__file__ == str(tmp_path / "bnns.py") and partition_for_bnns(None) == "mounted"


def test_unmounted_names_say_what_to_do_and_unknown_ones_are_none(installed):
    import tvm
    from tvm.relay.op import contrib

    with pytest.raises(tvm.TVMError, match="partition_for_clml belongs to TVM's own integration .*: mount the folder"):
        contrib.partition_for_clml(None)
    with pytest.raises(AttributeError, match="tvm.relay.op.contrib has no attribute 'partition_for_acme'"):
        _ = contrib.partition_for_acme
    assert contrib.partition_for_bnns.__module__ == "byoc.contrib.bnns"


def test_a_module_that_cannot_be_imported_is_named(installed, tmp_path):
    from tvm.relay.op import contrib

    (tmp_path / "mrvl.py").write_text("import no_such_package\n")
    (tmp_path / "clml.py").write_text("def partition_for_clml(mod): return mod\n")
    installed.mount(tmp_path)
    assert contrib.partition_for_clml(3) == 3
    with pytest.raises(AttributeError, match="its module mrvl cannot be imported .*no_such_package"):
        _ = contrib.partition_for_mrvl


def test_bnns_takes_a_bias_along_the_channels_of_any_form(installed):
    import tvm
    from tvm import relay

    def normal(*shape):
        return relay.const(RNG.normal(size=shape).astype("float32"))

    conv = relay.nn.conv2d(relay.var("x", shape=(1, 3, 8, 8)), normal(4, 3, 3, 3), channels=4, kernel_size=(3, 3))
    forms = [
        relay.nn.bias_add(conv, normal(4)),
        relay.nn.bias_add(conv, normal(4), axis=1),
        relay.add(conv, normal(4, 1, 1)),
        relay.add(conv, normal(1, 4, 1, 1)),
    ]
    for form in forms:
        mod = relay.op.contrib.partition_for_bnns(tvm.IRModule.from_expr(form))
        assert inside(mod, "bnns") == {"bnns.conv2d_bias": 1} and relay.testing.count_ops(mod["main"]) == {}
    for form in (relay.add(conv, normal(6, 6)), relay.nn.bias_add(conv, normal(6), axis=3)):
        mod = relay.op.contrib.partition_for_bnns(tvm.IRModule.from_expr(form))
        assert inside(mod, "bnns") == {"nn.conv2d": 1}


@pytest.mark.parametrize("name", ["cublas", "cudnn"])
def test_what_a_region_needs_of_tvm_is_one_sentence(enabled, name):
    import tvm
    from tvm import relay

    mod, params = network("resnet")
    words = f"{name}..* is lowered by tensor expressions of TVM for cuda.*register another code generator"
    with pytest.raises(tvm.TVMError, match=words):
        relay.build(partition(name, mod, params), target="llvm")


def test_functions_that_a_vendors_library_registers_are_stubs_that_name_themselves(installed, tmp_path):
    import tvm

    (tmp_path / "acme.py").write_text(
        "import tvm\nfrom . import _acme\ntvm._ffi._init_api('relay.ext.acme.transform', __name__)\n"
        "def partition(mod):\n    return FuseAcme()(mod)\n"
    )
    (tmp_path / "_acme.py").write_text("import tvm\ntvm._ffi._init_api('relay.acme.support', __name__)\n")
    installed.mount(tmp_path)
    acme = importlib.import_module("tvm.relay.op.contrib.acme")
    with pytest.raises(tvm.TVMError, match="relay.ext.acme.transform.FuseAcme is a vendor's own, and its library is"):
        acme.partition(None)
    with pytest.raises(tvm.TVMError, match="the global function relay.acme.support.conv2d is a vendor's own"):
        acme._acme.conv2d(None)
    tvm.register_func("relay.acme.support.conv2d", lambda call: "taken")
    assert acme._acme.conv2d(None) == "taken"


def test_ethosn_answers_where_it_is_emulated(installed):
    import tvm
    from tvm import relay

    assert tvm.get_global_func("relay.ethos-n.api.version", True) is None
    with installed.emulate("ethos-n"):
        assert tvm.get_global_func("relay.ethos-n.api.version")() == "3.2.0"
        assert tvm.get_global_func("relay.ethos-n.support.conv2d")(relay.const(1) + relay.const(2))
        inline = tvm.get_global_func("relay.backend.contrib.ethos-n.InlineNonComputeIntensivePartitions")()
        for op, left in ((lambda x: relay.reshape(x, (4,)), 1), (relay.tanh, 2)):
            x = relay.var("x", shape=(2, 2))
            region = relay.annotation.compiler_end(op(relay.annotation.compiler_begin(x, "ethos-n")), "ethos-n")
            mod = relay.transform.PartitionGraph()(relay.transform.InferType()(tvm.IRModule.from_expr(region)))
            assert len(inline(mod).functions) == left
    assert tvm.get_global_func("relay.ethos-n.api.version", True) is None


def test_what_mounted_files_read_of_tvm(installed):
    import os

    import tvm
    from tvm.contrib import mrvl
    from tvm.contrib.target.coreml import _convert_map

    assert set(_convert_map) == {
        "add",
        "multiply",
        "clip",
        "expand_dims",
        "nn.relu",
        "nn.batch_flatten",
        "nn.softmax",
        "nn.conv2d",
        "nn.global_avg_pool2d",
    }
    with pytest.raises(tvm.TVMError, match="_convert_map"):
        _convert_map["nn.conv2d"](None)
    assert mrvl.get_working_dir() == os.getcwd()
    mod = tvm.IRModule.from_expr(tvm.relay.var("x", shape=(2,)))
    for name in (
        "GenerateCMSISNNConstants",
        "CMSISNNFusePads",
        "ScalarToTensorConstants",
        "ExtractConstantsFromPartitionedFunction",
    ):
        made = tvm.get_global_func(f"relay.ext.cmsisnn.transform.{name}")()
        tvm.ir.assert_structural_equal(made(mod), mod)


@pytest.mark.parametrize("name", ["cublas", "cudnn", "cmsisnn", "clml", "libtorch", "mrvl", "ethosu"])
def test_an_integration_that_is_not_mounted_can_be_imported_and_says_so_when_used(installed, name):
    import tvm

    module = importlib.import_module(f"tvm.relay.op.contrib.{name}")
    with pytest.raises(tvm.TVMError, match="mount the folder of that integration"):
        getattr(module, f"partition_for_{name}")(None)


def test_what_such_files_reach_in_cpp_is_found_by_name(installed):
    from tvm import relay
    from tvm.relay.expr import bind
    from tvm.relay.transform import _ffi_api

    assert _ffi_api.InferType is relay.transform.InferType and bind is relay.bind
    assert relay.transform._ffi_api is _ffi_api
