"""The example NPU on an emulated device: what a fault there does to a model, with the host behind it and without."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from quantized_nets import SMALL, quantized, samples, small_net

import byoc
from byoc.cli.main import main
from byoc.runtime import DeviceError, DeviceTimeoutError, HardwareLevel, RunTimeoutError, known_outputs

pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.needs_cc
SAMPLE = samples(SMALL, 1, seed=9)[0]
LARGE, SMALLER = "tvmgen_default_int8_npu_main_0", "tvmgen_default_int8_npu_main_7"


@pytest.fixture(scope="module")
def qdq(tmp_path_factory):
    folder = tmp_path_factory.mktemp("npu_on_a_device")
    return quantized(small_net(folder / "small.onnx"), folder / "qdq.onnx", samples(SMALL))


@pytest.fixture(scope="module")
def expected(qdq):
    return byoc.compile(qdq, targets=["int8_npu", "c"]).run(SAMPLE)[0]


def on(device, qdq, **options):
    return byoc.compile(qdq, targets=["int8_npu", "c"], backend_options={"int8_npu": {"device": device}}, **options)


@pytest.mark.parametrize("device", ["host", "emulated:seconds=0.001,seconds_per_byte=1e-7"])
def test_the_numbers_are_the_same_on_every_device(qdq, expected, device):
    np.testing.assert_array_equal(on(device, qdq).run(SAMPLE)[0], expected)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("fail=launch@1", "launch 1 failed"),
        ("fail=allocate@2", "allocate 2 failed"),
        ("lose=launch@1", "is lost since launch 1"),
        ("hang=copy_out@1", "took longer than $BYOC_WAIT_SECONDS of 0.05 s"),
    ],
)
def test_a_fault_is_one_sentence_or_the_hosts_work_with_a_record(qdq, expected, monkeypatch, fault, said):
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.05")
    with pytest.raises(DeviceError) as caught:
        on(f"emulated:{fault}", qdq).run(SAMPLE)
    assert said in str(caught.value) and f"region {LARGE} (nodes first," in str(caught.value)
    assert "\n" not in str(caught.value)
    library = on(f"emulated:{fault}", qdq, fallback=True)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert [(f.subgraph, f.stage) for f in library.fallbacks] == [(LARGE, "launch"), (SMALLER, "launch")]
    assert all(said in f.message for f in library.fallbacks)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert len(library.fallbacks) == 2


def test_a_device_that_is_too_small_for_one_region_leaves_the_other_on_it(qdq, expected):
    library = on("emulated:memory=1000", qdq, fallback=True)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert [(f.subgraph, f.exception) for f in library.fallbacks] == [(LARGE, "DeviceMemoryError")]


def test_regions_on_a_device_with_a_name_share_its_faults(qdq, expected):
    library = on("emulated:name=shared_faults,lose=launch@3", qdq, fallback=True)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert library.fallbacks == []
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert {f.subgraph for f in library.fallbacks} == {LARGE, SMALLER}
    assert all("shared_faults is lost since launch 3" in f.message for f in library.fallbacks)


def test_a_later_fault_leaves_earlier_runs_alone(qdq, expected):
    library = on("emulated:fail=launch@2", qdq)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    for region in (LARGE, SMALLER):  # the second does not run where the first fails
        with pytest.raises(DeviceError, match=f"region {region} .* launch 2 failed"):
            library.run(SAMPLE)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)  # in a new stream


def test_a_hang_ends_at_the_regions_and_the_runs_time(qdq, expected):
    with pytest.raises(DeviceError, match=r"it took longer than the 0.5 s that it may take"):
        on("emulated:hang=launch@1", qdq, region_timeout=0.5).run(SAMPLE)
    library = on("emulated:hang=launch@1", qdq, region_timeout=0.5, fallback=True)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)
    assert len(library.fallbacks) == 2
    with pytest.raises(RunTimeoutError, match=r"timeout of 0.5 s while waiting for emulated") as caught:
        on("emulated:hang=launch@1", qdq).run(SAMPLE, timeout=0.5)
    assert not isinstance(caught.value, DeviceTimeoutError)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ("opencl", "the device of int8_npu is one of emulated, host"),
        (3, "the device of int8_npu is one of emulated, host"),
        ("emulated:speed=1", "'speed=1': expected one of name, seconds"),
    ],
)
def test_a_device_that_it_cannot_run_on_is_refused_when_compiling(qdq, device, said):
    with pytest.raises(DeviceError, match=said):
        on(device, qdq)


LOADER = """
import sys
import numpy as np
import byoc.runtime

library = byoc.runtime.load(sys.argv[1])
np.save(sys.argv[3], library.run({"x": np.load(sys.argv[2])})[0])
print(*[f"{f.subgraph} {f.message}" for f in library.fallbacks], sep="\\n")
"""


@pytest.mark.parametrize("chosen", ["when compiled", "when run"])
def test_a_saved_model_meets_its_faults_in_a_new_process(qdq, expected, tmp_path, monkeypatch, chosen):
    fault = "emulated:hang=launch@1"
    library = on(fault if chosen == "when compiled" else "emulated", qdq, fallback=True)
    library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", SAMPLE["x"])
    monkeypatch.setenv("BYOC_WAIT_SECONDS", "0.05")
    if chosen == "when run":
        monkeypatch.setenv("BYOC_INT8_NPU_DEVICE", fault)
    arguments = [str(tmp_path / name) for name in ("m.byoc", "x.npy", "y.npy")]
    done = subprocess.run([sys.executable, "-c", LOADER, *arguments], capture_output=True, text=True, check=True)
    assert [line.split(" ")[0] for line in done.stdout.splitlines()] == [LARGE, SMALLER]
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), expected)


def test_the_command_line_names_the_device_and_exits_by_its_fault(qdq, tmp_path, capsys):
    model = str(tmp_path / "m.byoc")
    options = ["--set", "int8_npu.device=emulated:fail=launch@1,seed=1", "-o", model]
    assert main(["compile", str(qdq), "-t", "int8_npu,c", *options]) == 0
    assert main(["run", model, "--random"]) == 3
    assert "launch 1 failed, a fault that was injected" in capsys.readouterr().err


def test_a_run_waits_for_another_threads_no_longer_than_it_may(qdq, expected):
    library = on("emulated", qdq)
    module = next(m for m in library.module.imports if m.type_key == "int8_npu")
    library.run(SAMPLE)  # the next comes to the lock soon, on a busy machine too
    with module._lock, pytest.raises(RunTimeoutError, match=r"timeout of 1 s while waiting for another run of"):
        library.run(SAMPLE, timeout=1)
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)


def test_threads_and_forked_children_run_on_one_device(qdq, expected):
    library = on("emulated:name=of_many", qdq)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: library.run(SAMPLE)[0], range(12)):
            np.testing.assert_array_equal(found, expected)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(library.run(SAMPLE)[0], expected) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    np.testing.assert_array_equal(library.run(SAMPLE)[0], expected)


def test_the_level_of_its_module_is_that_of_its_device(qdq):
    library = on("host", qdq)
    levels = {m.type_key: m.level() for m in library.module.imports}
    assert levels["int8_npu"] == HardwareLevel.REAL
    modules = byoc.compile(qdq, targets=["int8_npu", "c"]).module.imports
    assert {m.type_key: m.level() for m in modules}["int8_npu"] == HardwareLevel.EMULATED


def test_known_outputs_take_the_place_of_a_run_and_then_are_gone(qdq, expected):
    library = on("emulated:fail=launch@1", qdq)  # which would be an error
    shape = library.module.regions[LARGE].signature.outputs[0].shape
    known = np.arange(10, dtype="int8").reshape(1, 10)
    with known_outputs(LARGE, [np.zeros(shape, "int8")]), known_outputs(SMALLER, [known]):
        first = library.run(SAMPLE)[0]
    np.testing.assert_array_equal(np.argsort(first[0], kind="stable"), np.arange(10))
    with pytest.raises(DeviceError, match="launch 1 failed"):
        library.run(SAMPLE)
