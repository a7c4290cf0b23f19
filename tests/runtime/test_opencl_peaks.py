"""The peaks of a device: measured once, kept for all processes, and reported as unknown where a driver's clock lies."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest

from byoc.runtime.core.errors import DeviceError
from byoc.runtime.devices.peak import ANY
from byoc.runtime.opencl import peaks
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.settings import settings_of

pytestmark = pytest.mark.needs_opencl


@pytest.fixture
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(peaks, "SECONDS", 2e-5)
    monkeypatch.setattr(peaks, "COPY_BYTES", 1 << 21)


def test_peaks_are_measured_once_and_found_by_other_processes(fresh_cache, monkeypatch):
    opened = open_device()
    assert peaks.known_peak(opened) is None  # which measures nothing
    found = peaks.device_peak(opened)
    assert (
        set(found.operations) >= {"float32", "int32", ANY}
        and ("float64" in found.operations) == opened.info.has_float64
    )
    assert min(*found.operations.values(), found.bandwidth, found.launch) > 0
    assert found.operations[ANY] == found.operations["float32"] and opened.info.name in found.source
    monkeypatch.setattr(peaks, "_measured", lambda opened: pytest.fail("measured again"))
    assert peaks.device_peak(opened) == found
    code = (
        "import json\n"
        "from byoc.runtime.opencl import peaks\n"
        "from byoc.runtime.opencl.devices import open_device\n"
        "p = peaks.known_peak(open_device())\n"
        "print(json.dumps([p.operations, p.bandwidth, p.launch, p.near]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = [found.operations, found.bandwidth, found.launch, [list(pair) for pair in found.near]]
    assert json.loads(done.stdout) == shown
    assert all(rate >= found.bandwidth for _, rate in found.near) and len(found.near) == len(peaks.NEAR_COPIES)


@pytest.mark.parametrize(
    "kept",
    [
        {"edition": 0, "operations": {"*": 1.0}, "bandwidth": 1.0, "launch": 1.0},
        {"edition": peaks.EDITION, "operations": {"float32": 1.0}, "bandwidth": 1.0, "launch": 1.0, "near": [2.0] * 3},
        {"edition": peaks.EDITION, "operations": {"*": 0.0}, "bandwidth": 1.0, "launch": 1.0, "near": [2.0] * 3},
        {"edition": peaks.EDITION, "operations": {"*": 1.0}, "bandwidth": 1.0, "launch": 1.0, "near": [2.0, 0.0, 1.0]},
        {"edition": peaks.EDITION, "operations": {"*": 1.0}, "bandwidth": 1.0, "launch": 1.0, "near": [2.0]},
        {"edition": peaks.EDITION, "operations": {"*": 1.0}, "bandwidth": "fast"},
        [1, 2],
    ],
)
def test_what_another_edition_kept_or_is_no_rate_is_not_taken(fresh_cache, kept):
    opened = open_device()
    settings_of(opened).put(peaks.SETTING, kept)
    assert peaks.known_peak(opened) is None


def test_a_clock_that_stands_still_is_an_error(fresh_cache, monkeypatch):
    event = SimpleNamespace(wait=lambda: None, profile=SimpleNamespace(start=5, end=5))
    monkeypatch.setattr(peaks._Bench, "_launched", lambda self, kernel, items: event)
    with pytest.raises(DeviceError, match=r"cannot be measured: its clock says that work took no time"):
        peaks.measure_peak(open_device())
    assert peaks.known_peak(open_device()) is None


def test_the_kernels_of_a_device_use_what_it_has_and_no_more():
    info = open_device().info
    gpu = SimpleNamespace(kind="gpu", has_float64=False, has_float16=True, float_lanes=1)
    text = peaks.peak_source(gpu)
    assert "cl_khr_fp16" in text and "half2" in text and "double" not in text
    assert peaks.peak_source(info) == peaks.peak_source(info)
