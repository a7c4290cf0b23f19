"""An emulated TensorRT: it answers for whoever asks for it, its regions run, and it can be undone."""

import subprocess
import sys

import numpy as np
import pytest

from byoc.ir.registry import GLOBAL_FUNCTIONS

pytestmark = pytest.mark.needs_cc
RNG = np.random.default_rng(0)


def skips(feature):
    (mark,) = feature.marks()
    return bool(mark.args[0])


def test_nothing_answers_unasked(installed):
    import tvm
    from tvm.relay.op import contrib

    assert not [name for name in GLOBAL_FUNCTIONS if name.startswith("relay.ext.tensorrt")]
    assert not contrib.is_tensorrt_compiler_enabled() and not contrib.is_tensorrt_runtime_enabled()
    assert skips(tvm.testing.requires_cuda) and not tvm.testing.device_enabled("cuda")
    x = tvm.relay.var("x", shape=(2,))
    for target in ("cuda", ["cuda", tvm.target.Target("tensorrt")]):
        with pytest.raises(tvm.TVMError, match="byoc generates no code for the target 'cuda'"):
            tvm.relay.build(tvm.IRModule.from_expr(x + x), target=target)


def test_the_environment_answers_where_it_is_asked_for_and_can_be_undone(installed):
    import tvm
    from tvm.relay.op import contrib

    before = set(GLOBAL_FUNCTIONS)
    made = installed.emulate("tensorrt")
    assert contrib.is_tensorrt_compiler_enabled() and contrib.is_tensorrt_runtime_enabled()
    version = tvm.get_global_func("relay.ext.tensorrt.get_version")()
    assert len(version) == 3 and all(isinstance(v, int) for v in version)
    assert not skips(tvm.testing.requires_cuda) and skips(tvm.testing.requires_vulkan)
    assert str(tvm.device("cuda")) == "cuda(0)"
    assert installed.emulate("tensorrt") is made
    made.undo()
    made.undo()
    assert set(GLOBAL_FUNCTIONS) == before and skips(tvm.testing.requires_cuda)
    with installed.emulate("tensorrt"):
        assert not skips(tvm.testing.requires_cuda)
    assert skips(tvm.testing.requires_cuda)


def test_uninstalling_undoes_an_emulation():
    import byoc.compat.tvm as compat

    compat.emulate("tensorrt")
    assert compat.is_installed() and "relay.ext.tensorrt" in GLOBAL_FUNCTIONS
    compat.uninstall()
    assert "relay.ext.tensorrt" not in GLOBAL_FUNCTIONS
    compat.emulate("tensorrt").undo()
    compat.uninstall()


def test_a_library_that_is_not_emulated_or_is_here_is_a_sentence(installed):
    import tvm

    with pytest.raises(tvm.TVMError, match="there is no emulation of 'bnns'; known: ethos-n, tensorrt"):
        installed.emulate("bnns")
    tvm.register_func("relay.ext.tensorrt.get_version", lambda: [8, 0, 0])
    with pytest.raises(tvm.TVMError, match="relay.ext.tensorrt.get_version is registered already"):
        installed.emulate("tensorrt")


def test_the_compiler_counts_as_present_whatever_it_answers_of_its_runtime(installed):
    import tvm
    from tvm.relay.op import contrib

    tvm.register_func("relay.ext.tensorrt.is_runtime_enabled", lambda: False)
    assert contrib.is_tensorrt_compiler_enabled() and not contrib.is_tensorrt_runtime_enabled()


@pytest.fixture
def tensorrt(vendors, installed):
    installed.emulate("tensorrt")
    from tvm.relay.op.contrib import tensorrt

    return tensorrt


def conv_block(relay, shape=(1, 8, 10, 10), dtype="float32"):
    x = relay.var("x", shape=shape, dtype=dtype)
    w, b = relay.var("w", shape=(6, 8, 3, 3), dtype=dtype), relay.var("b", shape=(6,), dtype=dtype)
    conv = relay.nn.bias_add(relay.nn.conv2d(x, w, padding=(1, 1), channels=6, kernel_size=(3, 3)), b)
    pooled = relay.nn.max_pool2d(relay.nn.relu(conv), (2, 2), (2, 2))
    return relay.Function([x, w, b], relay.nn.softmax(relay.nn.batch_flatten(pooled)))


def run(relay, mod, kind, target, **inputs):
    import tvm

    with tvm.transform.PassContext(opt_level=3):
        call = relay.create_executor(kind, mod=mod, device=tvm.device("cuda"), target=target).evaluate()
    return call(**inputs).numpy()


@pytest.mark.parametrize("kind", ["graph", "vm"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float16", 5e-3)])
def test_a_partitioned_module_runs_on_the_device_it_asks_for(tensorrt, kind, dtype, tolerance):
    import tvm
    from tvm import relay

    target = tvm.target.Target(f"tensorrt -use_fp16={dtype == 'float16'}")
    assert target.attrs["use_fp16"] is (dtype == "float16")
    params = {"w": RNG.uniform(-1, 1, (6, 8, 3, 3)).astype(dtype), "b": RNG.uniform(-1, 1, 6).astype(dtype)}
    data = RNG.uniform(-1, 1, (1, 8, 10, 10)).astype(dtype)
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(conv_block(relay, dtype=dtype)))
    expected = run(relay, mod, kind, "cuda", x=data, **params)
    parted = tensorrt.partition_for_tensorrt(mod, params=params, target=target)
    assert relay.testing.count_ops(parted["main"]) == {}
    found = run(relay, parted, kind, ["cuda", target], x=data, **params)
    np.testing.assert_allclose(found.astype("float64"), expected.astype("float64"), rtol=tolerance, atol=tolerance)


def test_batches_of_any_size(tensorrt):
    import tvm
    from tvm import relay

    func = conv_block(relay, (relay.Any(), 8, 10, 10))
    params = {"w": RNG.normal(size=(6, 8, 3, 3)).astype("float32"), "b": np.ones(6, "float32")}
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(func))
    parted = tensorrt.partition_for_tensorrt(mod, params=params)
    assert any(f.attrs.get("Compiler") == "tensorrt" for f in parted.functions.values())
    for batch in (1, 3, 2):
        data = RNG.normal(size=(batch, 8, 10, 10)).astype("float32")
        target = ["cuda", tvm.target.Target("tensorrt")]
        found = run(relay, parted, "vm", target, x=data)
        np.testing.assert_allclose(found, run(relay, mod, "vm", "llvm", x=data, **params), rtol=1e-5, atol=1e-6)


def test_a_library_with_such_regions_is_saved_and_loaded(tensorrt, tmp_path):
    import tvm
    from tvm import relay
    from tvm.contrib import graph_executor

    params = {"w": RNG.normal(size=(6, 8, 3, 3)).astype("float32"), "b": np.ones(6, "float32")}
    mod = relay.transform.InferType()(tvm.IRModule.from_expr(conv_block(relay)))
    parted = tensorrt.partition_for_tensorrt(mod, params=params)
    with tvm.transform.PassContext(opt_level=3):
        built = relay.build(parted, target=["cuda", tvm.target.Target("tensorrt")], params=params)
    built.export_library(str(tmp_path / "net.so"))
    loaded = graph_executor.GraphModule(tvm.runtime.load_module(str(tmp_path / "net.so"))["default"](tvm.cuda(0)))
    data = RNG.normal(size=(1, 8, 10, 10)).astype("float32")
    loaded.set_input("x", data)
    loaded.run()
    expected = run(relay, mod, "graph", "llvm", x=data, **params)
    np.testing.assert_allclose(loaded.get_output(0).numpy(), expected, rtol=1e-5, atol=1e-6)


def test_a_region_without_an_operator(tensorrt):
    import tvm
    from tvm import relay

    inner, x = relay.var("y", shape=(8, 5)), relay.var("x", shape=(8, 5))
    region = relay.Function([inner], inner).with_attr("Primitive", tvm.tir.IntImm("int32", 1))
    region = region.with_attr("Inline", tvm.tir.IntImm("int32", 1)).with_attr("Compiler", "tensorrt")
    name = relay.GlobalVar("tensorrt_0")
    mod = tvm.IRModule({name: region.with_attr("global_symbol", "tensorrt_0")})
    mod["main"] = relay.Function([x], name(x))
    mod = relay.transform.InferType()(mod)
    data = RNG.normal(size=(8, 5)).astype("float32")
    for kind in ("graph", "vm"):
        found = run(relay, mod, kind, ["cuda", tvm.target.Target("tensorrt")], x=data)
        np.testing.assert_array_equal(found, data)


def test_the_command_line_asks_for_it(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import tvm\nfrom tvm.relay.op import contrib\nprint(contrib.is_tensorrt_runtime_enabled())\n")
    done = subprocess.run(
        [sys.executable, "-m", "byoc.compat.tvm", "--emulate", "tensorrt", str(script)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "True"


def test_the_command_line_knows_what_can_be_emulated(installed, tmp_path, capsys):
    from byoc.compat.tvm.__main__ import main

    assert main(["--emulate", "acme", str(tmp_path / "script.py")]) == 2
    assert "there is no emulation of 'acme'; known: ethos-n, tensorrt" in capsys.readouterr().err
