"""Profiles of kernels by device events, on the path that users take: compile or load, profile, command line."""

import dataclasses
import itertools
import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import byoc
from byoc.cli.main import main
from byoc.driver.costs.machine import MachineCosts
from byoc.partition.costs.profile import HOST_DEFAULTS
from byoc.runtime import RunProfile, UserError
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.devices.peak import ANY, Peak
from byoc.runtime.opencl import module as opencl_module
from byoc.runtime.opencl import peaks
from byoc.runtime.opencl.devices import import_pyopencl

DIGITS = pathlib.Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
IMAGE = np.random.default_rng(0).random((4, 1, 8, 8), "float32")
PEAK = Peak({"float32": 1e11, ANY: 1e10}, 1e10, "said by a test", 1e-7, ((1 << 12, 4e10),))
CONVOLUTION = 2 * 4 * 64 * 32 * 288 + 3 * 4 * 64 * 32  # of four images, with bias, relu and the sum behind it
pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]


@pytest.fixture(scope="module")
def library():
    """The digit classifier on the device, but for its softmax."""
    return byoc.compile(DIGITS, targets=["opencl", "c"], exclude=["nn.softmax"])


@pytest.fixture(scope="module")
def profile(library):
    return library.profile({"image": IMAGE}, repeat=3, warmup=1, peaks={"opencl": PEAK})


def device_module(library):
    return next(m for m in library.module.imports if m.type_key == "opencl")


def kernels(profile):
    return [row for row in profile.rows("kernel") if row.sizes]


def test_each_kernel_has_operators_nodes_variant_sizes_times_and_rates(profile, library):
    (plan,) = device_module(library).plans
    chosen = [launch.choose({"batch": 4}) for launch in plan.launches]
    found = kernels(profile)
    assert {row.name.split(": ")[1] for row in found} == {variant.kernel for variant in chosen}
    assert sorted(row.variant for row in found) == sorted(variant.schedule for variant in chosen)
    for row in found:
        gws, lws = row.sizes
        assert row.calls == 1 and gws % lws == 0 and row.operators and row.nodes
        assert min(row.seconds) > 0 and row.in_queue >= 0 and row.on_device >= 0
        assert row.bandwidth == row.bytes / row.median > 0
        assert row.of_peak == max(row.of_compute or 0, row.of_memory)
    heavy = next(row for row in found if row.operations == CONVOLUTION)
    assert list(heavy.operators) == ["nn.conv2d", "nn.bias_add", "nn.relu", "add"]
    assert list(heavy.nodes) == ["node_Conv_27", "node_relu_1", "node_add_35"]
    assert heavy.rate == CONVOLUTION / heavy.median and heavy.limit == "compute"
    small = next(row for row in found if row.bytes <= 1 << 12)
    assert small.of_memory == pytest.approx(small.bytes / 4e10 / small.median)
    assert heavy.of_memory == pytest.approx(heavy.bytes / 1e10 / heavy.median)
    assert heavy.of_compute == pytest.approx(CONVOLUTION / 1e11 / heavy.median)


def test_the_run_times_of_kernels_and_copies_are_no_more_than_the_wall_time(profile):
    (region,) = (f for f in profile.functions if f.is_region)
    assert len(profile.seconds) == 3
    for run, wall in enumerate(profile.seconds):
        spans = sorted(span for part in region.parts for span in part.runs[run])
        assert 0 < sum(end - begin for begin, end in spans) <= wall
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(spans))  # one queue, in order
        ((begin, end),) = region.runs[run]
        assert all(begin - 1e-3 <= a <= b <= end + 1e-3 for a, b in spans)


def test_copies_are_reported_with_their_bytes_and_held_against_no_peak_of_the_devices_memory(profile):
    copies = {row.name.split(": ")[1]: row for row in profile.rows("kernel") if "copy" in row.name}
    assert set(copies) == {"copy in", "copy out"}
    assert copies["copy in"].bytes == IMAGE.nbytes and copies["copy out"].bytes == 4 * 10 * 4
    assert all(row.bandwidth > 0 and row.of_peak is None and row.limit is None for row in copies.values())


def test_with_profiling_off_the_queue_keeps_no_times(library):
    flag = import_pyopencl().command_queue_properties.PROFILING_ENABLE
    module = device_module(library)
    (symbol,) = module.symbols
    library.run({"image": IMAGE})
    assert not module.session(symbol)._queue.properties & flag
    module.profile(True)
    library.run({"image": IMAGE})
    assert module.session(symbol)._queue.properties & flag
    assert len(module.profile(False)) > 5
    library.run({"image": IMAGE})
    assert not module.session(symbol)._queue.properties & flag
    assert module.profile(False) == []


def test_a_profile_is_saved_read_and_compared_kernel_by_kernel(profile, tmp_path):
    again = RunProfile.from_json(json.dumps(profile.to_json()))
    assert again == profile and again.peaks["opencl"] == PEAK
    rows = {row.name: row.to_json() for row in again.rows("kernel") if row.sizes}
    shown = next(row for row in rows.values() if row["operations"] == CONVOLUTION)
    assert shown["limit"] == "compute" and shown["variant"] and shown["operators"][0] == "nn.conv2d"
    assert {"mean_ms", "in_queue_ms", "on_device_ms", "gws", "lws", "gflops", "gbs", "of_memory"} <= set(shown)
    text = profile.compare(again)
    assert all(name in text for name in rows)


def test_the_table_has_the_peaks_and_which_of_them_limits(profile):
    lines = profile.table().splitlines()
    assert "peak of opencl: 100 GFLOP/s in float32; 10 GB/s, 40 up to 4 KB; 0.1 us a launch; said by a test" in lines
    head = next(line for line in lines if line.startswith("by kernel"))
    assert [head.index(name) for name in ("limit", "in queue", "on device", "variant", "gws/lws", "operators")]
    assert any("compute" in line and "nn.conv2d +3" in line and "node_Conv_27 +2" in line for line in lines)
    slow = dataclasses.replace(profile, peaks={"opencl": Peak({ANY: 1e3}, 1e3)})
    fast = dataclasses.replace(profile, peaks={"opencl": Peak({ANY: 1e18}, 1e18)})
    assert "more than 100 % of a peak" in slow.table() and "more than 100 %" not in fast.table()


def test_work_below_a_launch_is_limited_by_it(profile):
    slow = dataclasses.replace(profile, peaks={"opencl": dataclasses.replace(PEAK, launch=10.0)})
    assert {row.limit for row in kernels(slow)} == {"launch"}


def test_a_trace_has_a_track_for_a_queue_and_one_for_its_copies(profile):
    events = profile.trace()["traceEvents"]
    lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    (queue,) = (tid for tid, name in lanes.items() if name.startswith("opencl: queue "))
    (copies,) = (tid for tid, name in lanes.items() if name.startswith("opencl: copies of queue "))
    assert {e["name"] for e in events if e["tid"] == copies and e["ph"] == "X"} == {"copy in", "copy out"}
    (heavy, *_) = (e for e in events if e["tid"] == queue and e["args"].get("operations") == CONVOLUTION)
    assert (
        heavy["args"]["nodes"] == ["node_Conv_27", "node_relu_1", "node_add_35"] and heavy["args"]["in_queue_us"] >= 0
    )
    assert heavy["dur"] > 0 and {"variant", "gws", "lws", "operators", "bytes", "on_device_us"} <= set(heavy["args"])


def test_a_saved_artefact_is_profiled_in_a_new_process_by_the_runtime_alone(library, tmp_path):
    path = library.save(tmp_path / "m.byoc")
    code = (
        "import sys, json, importlib.abc\n"
        "class No(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name in ('byoc.driver', 'byoc.relay', 'byoc.ir', 'byoc.codegen', 'byoc.te'):\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import byoc.runtime\n"
        "p = byoc.runtime.load(sys.argv[1]).profile(repeat=1, warmup=0)\n"
        "rows = [r for r in p.rows() if r.sizes]\n"
        "assert all(r.of_peak > 0 and r.limit for r in rows if r.bytes), p\n"
        "print(json.dumps([[r.name, r.variant, r.operations, r.bytes, list(r.operators)] for r in rows]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    here = library.profile(repeat=1, warmup=0)
    assert sorted(json.loads(done.stdout)) == sorted(
        [r.name, r.variant, r.operations, r.bytes, list(r.operators)] for r in kernels(here)
    )


def test_a_device_whose_peaks_cannot_be_measured_is_profiled_without_and_says_so(library, monkeypatch):
    def refuse(opened):
        raise DeviceError("its clock stands still")

    monkeypatch.setattr(opencl_module, "device_peak", refuse)
    found = library.profile(repeat=1, warmup=0)
    assert "shares of a peak are not known: its clock stands still" in found.notes
    assert all(row.of_peak is None and row.limit is None and row.bandwidth for row in kernels(found))


def test_the_command_line_lists_kernels_and_compares_two_runs(tmp_path, capsys):
    first, trace = tmp_path / "p.json", tmp_path / "p.trace.json"
    command = ["profile", str(DIGITS), "-t", "opencl", "--repeat", "2", "--size", "batch=4"]
    assert main([*command, "-o", str(first), "-o", str(trace)]) == 0
    out = capsys.readouterr().out
    assert "peak of opencl: " in out and "us a launch; measured on " in out
    assert any(e.get("args", {}).get("operations") == CONVOLUTION for e in json.loads(trace.read_text())["traceEvents"])
    assert main([*command, "--compare", str(first)]) == 0
    name = next(row.name for row in kernels(RunProfile.from_json(first.read_text())) if row.operations == CONVOLUTION)
    line = next(text for text in capsys.readouterr().out.split("median: ")[-1].splitlines() if text.startswith(name))
    assert len(line.removeprefix(name).split()) == 3 and "-" not in line.removeprefix(name).split()[:2]
    assert main([*command, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert next(row for row in rows if row["operations"] == CONVOLUTION)["limit"] in ("compute", "memory", "launch")


def test_a_damaged_profile_is_refused(profile):
    data = json.loads(json.dumps(profile.to_json()))
    part = next(p for f in data["functions"] for p in f["parts"] if "waits" in p)
    part["waits"] = part["waits"][:1]
    with pytest.raises(UserError, match="expected a wait for each of its spans"):
        RunProfile.from_json(data)


def test_a_calibration_measures_the_peaks_of_devices_again_where_it_is_asked_to(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    measured = []
    found = dataclasses.replace(PEAK, near=tuple((2 * size, 4e10) for size in peaks.NEAR_COPIES))
    monkeypatch.setattr(peaks, "_measured", lambda opened: measured.append(opened) or found)
    monkeypatch.setattr(MachineCosts, "kept", lambda self, name: HOST_DEFAULTS)
    monkeypatch.setattr(MachineCosts, "calibrate", lambda self, name: HOST_DEFAULTS)
    assert main(["calibrate", "-t", "opencl", "--threads", "1", "--again", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(measured) == 1 and data["peaks"]["opencl"]["bandwidth"] == 1e10
    assert main(["calibrate", "-t", "opencl", "--threads", "1"]) == 0
    assert "peak of opencl: 100 GFLOP/s in float32; 10 GB/s" in capsys.readouterr().out
    assert len(measured) == 1  # it is kept
    monkeypatch.setattr(peaks, "measure_peak", lambda opened: pytest.fail("measured"))
    assert main(["calibrate", "--threads", "1", "--again", "--json"]) == 0  # the host alone
    assert json.loads(capsys.readouterr().out)["peaks"] == {}
