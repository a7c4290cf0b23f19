"""The OpenCL engine: saved modules, threads, the cache of binaries, devices, and the sentence of every refusal."""

from __future__ import annotations

import json
import subprocess
import sys
import threading

import numpy as np
import pytest

from byoc.runtime.core.errors import ArtifactError, DeviceError, InputError
from byoc.runtime.core.ndarray import NDArray, array
from byoc.runtime.core.signature import Signature, TensorSpec
from byoc.runtime.modules.module import module_class
from byoc.runtime.opencl import build, devices, session
from byoc.runtime.opencl.drivers import pocl
from byoc.runtime.opencl.launches import Bound, Buffer, FunctionPlan, Launch, Variant
from byoc.runtime.opencl.module import OpenCLModule
from byoc.runtime.opencl.numbers import evaluate

SOURCE = """
__kernel void twice(__global const float *in, __global float *out, const long x, const long t, const long N) {
  const long i = get_global_id(0);
  if (i >= N * 3) return;
  out[16 * t + i] = 2.0f * in[16 * x + i];
}
__kernel void plus(__global const float *in, __global const float *w, __global float *out, const long t, const long y,
                   const long N) {
  const long i = get_global_id(0);
  if (i >= N * 3) return;
  out[16 * y + i] = in[16 * t + i] + w[i % 3];
}
"""
WEIGHT = np.array([10, 20, 30], "float32")


def plan():
    bytes_of = ["mul", "N", 12]
    spec = lambda name: TensorSpec(name, ("N", 3), "float32")  # noqa: E731
    return FunctionPlan(
        Signature("f", (spec("x"),), (spec("y"),), (TensorSpec("f_const_0", (3,), "float32"),)),
        (Buffer(bytes_of), Buffer(12), Buffer(bytes_of), Buffer(bytes_of)),
        (
            Launch((0, 3), ("N",), (Variant("item", "twice", ["mul", "N", 3], 64),)),
            Launch((3, 1, 2), ("N",), (Variant("item", "plus", ["mul", "N", 3], 64),)),
        ),
    )


def module(source=SOURCE):
    made = OpenCLModule(source, [plan()])
    made.initialize("f", [array(WEIGHT)])
    return made


def call(made, batch, seed=0):
    x = np.random.default_rng(seed).standard_normal((batch, 3)).astype("float32")
    y = np.empty_like(x)
    made["f"](NDArray(x), NDArray(y))
    return y, 2 * x + WEIGHT


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    build._built.cache_clear()
    return tmp_path / "opencl"


@pytest.mark.needs_opencl
def test_batches_of_several_sizes_give_the_right_numbers():
    made = module()
    for batch in (1, 5, 1, 7, 100, 2, 3, 1, 0):
        got, want = call(made, batch)
        np.testing.assert_array_equal(got, want)


@pytest.mark.needs_opencl
def test_outputs_and_inputs_need_not_be_contiguous():
    x = np.arange(24, dtype="float32").reshape(4, 6)[:, ::2]
    y = np.empty((3, 4), "float32").T
    module()["f"](x, y)
    np.testing.assert_array_equal(y, 2 * x + WEIGHT)


@pytest.mark.needs_opencl
def test_two_threads_get_their_own_results():
    made = module()
    wrong = []

    def work(seed):
        for k in range(20):
            got, want = call(made, 1 + (k + seed) % 5, seed)
            if not np.array_equal(got, want):
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


CHILD = """
import json, pathlib, sys
import numpy as np
import byoc.runtime
from byoc.runtime.modules.module import module_class
folder = pathlib.Path(sys.argv[1])
loaded = module_class("opencl").load({p.name: p.read_bytes() for p in folder.iterdir()})
loaded.initialize("f", [byoc.runtime.core.ndarray.NDArray(np.array([10, 20, 30], "float32"))])
y = np.empty((2, 3), "float32")
loaded["f"](np.ones((2, 3), "float32"), y)
compiler = [m for m in sys.modules if m.startswith(("byoc.ir", "byoc.relay", "byoc.codegen", "byoc.te", "onnx"))]
print(json.dumps([y.tolist(), compiler]))
"""


@pytest.mark.needs_opencl
def test_a_saved_module_runs_in_a_new_process_that_imports_the_runtime_alone(tmp_path):
    for name, content in module().save().items():
        (tmp_path / name).write_bytes(content)
    child = "import byoc.runtime.core.ndarray\n" + CHILD
    done = subprocess.run([sys.executable, "-c", child, str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    numbers, compiler = json.loads(done.stdout.splitlines()[-1])
    assert numbers == [[12, 22, 32]] * 2
    assert compiler == []


@pytest.mark.needs_opencl
def test_a_source_that_the_device_refuses_gives_its_compilers_first_error(fresh_cache):
    with pytest.raises(DeviceError, match="refused the generated kernels: .*error: .*nonsense"):
        call(module("__kernel void twice() { nonsense; }"), 1)
    assert not fresh_cache.exists()


@pytest.mark.needs_opencl
def test_every_device_is_listed_with_its_index_and_the_variable_chooses_by_name(monkeypatch):
    found = devices.list_devices()
    assert [d.index for d in found] == list(range(len(found)))
    order = [devices._KIND_ORDER.index(d.kind) for d in found]
    assert order == sorted(order)
    monkeypatch.setenv(devices.DEVICE_VARIABLE, found[-1].name.upper())
    assert devices.open_device().info.name == found[-1].name
    monkeypatch.setenv(devices.DEVICE_VARIABLE, "no such device")
    with pytest.raises(DeviceError, match="names no OpenCL device; those here: .*" + found[0].kind):
        devices.open_device()


def info(index, name, kind):
    return devices.DeviceInfo(index, name, kind, "platform", "1", "1", 64, 1, 1, True)


def test_a_device_is_chosen_by_index_or_by_a_part_of_its_name_and_the_first_by_default():
    found = [(info(0, "NVIDIA H200", "gpu"), None), (info(1, "pthread-cpu", "cpu"), None)]
    assert [devices.choose_device(found, s)[0].index for s in ("", "0", "1", "H200", "pthread")] == [0, 0, 1, 0, 1]
    with pytest.raises(DeviceError, match=r"BYOC_OPENCL_DEVICE='2' names no OpenCL device; those here: \[0\] NVIDIA"):
        devices.choose_device(found, "2")


def test_no_device_is_one_sentence_that_says_what_to_install(monkeypatch):
    monkeypatch.setattr(devices, "_found_devices", lambda: [])
    monkeypatch.setattr(devices, "_open", devices._open.__wrapped__)
    monkeypatch.setattr(devices, "import_pyopencl", lambda: None)
    with pytest.raises(DeviceError, match=r"no OpenCL device was found here: .*pip install 'byoc-compiler\[opencl\]'"):
        call(module(), 1)


def test_a_missing_pyopencl_is_one_sentence_that_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyopencl", None)
    monkeypatch.setattr(devices, "_open", devices._open.__wrapped__)
    assert "pip install 'byoc-compiler[opencl]'" in build.why_unavailable()
    with pytest.raises(
        DeviceError, match=r"OpenCL needs the package pyopencl, .*pip install 'byoc-compiler\[opencl\]'"
    ):
        call(module(), 1)


def test_a_module_is_loaded_and_asked_for_its_symbols_without_a_device():
    loaded = module_class("opencl").load(module().save())
    assert loaded.symbols == ("f",)
    assert loaded.constants() == {"f": ("f_const_0",)}
    assert loaded.get_source() == SOURCE
    assert loaded.save() == module().save()


def test_wrong_arrays_and_constants_are_named():
    made = module()
    with pytest.raises(InputError, match=r"expected the constants f_const_0: float32\[3\]"):
        made.initialize("f", [])
    with pytest.raises(InputError, match="called before it was given its 1 constants"):
        OpenCLModule(SOURCE, [plan()])["f"](np.ones((1, 3), "float32"), np.ones((1, 3), "float32"))


@pytest.mark.needs_opencl
def test_an_input_of_another_shape_or_dtype_is_refused_before_anything_runs():
    made = module()
    with pytest.raises(InputError, match=r"input 'x': expected shape \[N, 3\] with N=1, got \[1, 4\]"):
        made["f"](np.ones((1, 4), "float32"), np.ones((1, 3), "float32"))
    with pytest.raises(InputError, match="expected dtype float32, got float64"):
        made["f"](np.ones((1, 3)), np.ones((1, 3), "float32"))
    with pytest.raises(InputError, match="expected 1 inputs and 1 outputs, got 1 arrays"):
        made["f"](np.ones((1, 3), "float32"))


def damaged(change):
    members = module().save()
    content = json.loads(members["plan.json"])
    change(content)
    return {**members, "plan.json": json.dumps(content).encode()}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        (lambda: {"kernels.cl": b""}, "needs the member 'plan.json', which is missing"),
        (lambda: {**module().save(), "plan.json": b"{"}, "cannot be read"),
        (lambda: damaged(lambda c: c.update(version=99)), "expected version 5"),
        (lambda: damaged(lambda c: c["functions"][0].pop("launches")), "does not describe a function"),
        (lambda: damaged(lambda c: c["functions"][0]["launches"][0].update(variants=[])), "has no kernel"),
        (lambda: damaged(lambda c: c["functions"][0]["launches"][0].update(buffers=[9])), "does not declare"),
        (lambda: damaged(lambda c: c["functions"][0].update(buffers=[["pow", 1, 2]] * 4)), "got \\['pow', 1, 2\\]"),
    ],
)
def test_damaged_members_are_refused_when_loading(members, message):
    with pytest.raises(ArtifactError, match=message):
        OpenCLModule.load(members())


def test_a_launch_is_padded_to_whole_groups_that_the_device_can_have():
    variant = Variant("item", "k", ["mul", "N", 3], 64)
    assert variant.shape({"N": 50}, 1024) == (192, 64)
    assert variant.shape({"N": 50}, 24) == (160, 16)
    assert variant.shape({"N": 0}, 1024) == (0, 64)
    assert Variant("tree", "k", 7, 64, groups=True).shape({}, 1) == (7, 1)


def test_a_call_takes_the_first_variant_that_is_for_its_sizes():
    few = Variant("tree", "t", 1, 64, True, (Bound("N", most=4), Bound(["mul", "N", "M"], least=10)))
    tile = Variant("tile4", "u", 1, 64, when=(Bound("M", 8, 9),))
    launch = Launch((), ("N", "M"), (few, tile, Variant("item", "i", 1, 64)))
    calls = ((4, 3), (4, 2), (5, 8), (5, 9), (5, 10), (1, 9), (0, 0))
    chosen = [launch.choose({"N": n, "M": m}).schedule for n, m in calls]
    assert chosen == ["tree", "item", "tile4", "tile4", "item", "tile4", "item"]


def test_numbers_are_arithmetic_on_sizes():
    assert evaluate(["add", ["div", "N", 4], ["max", 2, ["mod", "M", 5]]], {"N": 11, "M": 8}) == 5


def test_a_processor_has_the_highest_level_whose_flags_it_shows():
    flags = {level: [f for _, needed in pocl.LEVELS[k:] for f in needed] for k, (level, _) in enumerate(pocl.LEVELS)}
    assert all(pocl.processor_level(have) == level for level, have in flags.items())
    assert pocl.processor_level([*flags["x86-64-v2"], "avx512f"]) == "x86-64-v2"


def test_only_a_pocl_device_is_repaired_and_only_unless_switched_off(monkeypatch):
    class Fake:
        int_ptr = 8

        class platform:
            name = "NVIDIA CUDA"

    monkeypatch.setattr(pocl, "_name_processor", lambda record: "x86-64-v3")
    monkeypatch.setattr(pocl, "_REPAIRED", {})
    assert pocl.repair(Fake()) == ""
    Fake.platform.name = pocl.PLATFORM
    monkeypatch.setenv(pocl.SWITCH, "0")
    assert pocl.repair(Fake()) == ""
    monkeypatch.delenv(pocl.SWITCH)
    assert pocl.repair(Fake()) == "PoCL's compiler does not know this processor and builds for x86-64-v3"


def slow_module():
    """Twice the input, computed by a kernel that takes a while before it writes."""
    body = SOURCE.replace(
        "t[i] = 2.0f * x[i];",
        "float s = 0; for (int k = 0; k < 20000; ++k) s += sin(x[i] + k); "
        "t[i] = 2.0f * x[i] + (s > 1e30f ? 1.0f : 0.0f);",
    )
    return module(body)


@pytest.mark.needs_opencl
def test_a_call_begins_behind_another_of_another_queue_and_the_host_waits_for_neither(monkeypatch):
    first, second = slow_module(), module()
    monkeypatch.setattr(session.StartedCall, "wait", no_wait := lambda call: pytest.fail("the host waited"))
    x = np.random.default_rng(0).standard_normal((40, 3)).astype("float32")
    for k in range(3):
        between, y, z = np.full_like(x, np.nan), np.full_like(x, np.nan), np.full_like(x, np.nan)
        made = first["f"].start([x + k, between], [])
        ends = [second["f"].start([between, y], [made]), second["f"].start([between, z], [made])]
        monkeypatch.undo()
        for call in ends:
            call.wait()
        want = 2 * (x + k) + WEIGHT
        np.testing.assert_array_equal(between, want)
        np.testing.assert_array_equal(y, 2 * want + WEIGHT)
        np.testing.assert_array_equal(z, y)
        made.wait()
        monkeypatch.setattr(session.StartedCall, "wait", no_wait)


@pytest.mark.needs_opencl
def test_shapes_that_come_again_are_built_once_and_constants_taken_once():
    made = module()
    for batch in (3, 5, 3, 5, 3):
        got, want = call(made, batch)
        np.testing.assert_array_equal(got, want)
    assert made.session("f") is made.session("f")
    assert made.session("f").bindings.builds == 2


@pytest.mark.needs_opencl
def test_a_build_in_which_the_driver_warns_writes_nothing_to_the_terminal(capfd):
    source = f"#warning the driver's compiler says so\n{SOURCE}"
    build.build_trial(source, devices.open_device())
    assert capfd.readouterr() == ("", "")
