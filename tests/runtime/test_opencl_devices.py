"""Which device a library runs on: by index, type, name or platform; two of them in one process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.cli.main import main
from byoc.errors import UserError
from byoc.runtime.core.errors import DeviceError
from byoc.runtime.opencl import devices
from byoc.runtime.opencl.devices import DeviceInfo, choose_device, open_device
from byoc.runtime.opencl.drivers import pocl

NAMES = (
    ("NVIDIA H200", "gpu", "NVIDIA CUDA", "NVIDIA Corporation"),
    ("NVIDIA A2", "gpu", "NVIDIA CUDA", "NVIDIA Corporation"),
    ("gfx90a", "gpu", "AMD Accelerated Parallel Processing", "Advanced Micro Devices, Inc."),
    ("Vector Engine", "accelerator", "Acme: OpenCL", "Acme Ltd."),
    ("pthread-EPYC", "cpu", "Portable Computing Language", "AuthenticAMD"),
)
FOUND = [
    (DeviceInfo(k, name, kind, platform, "1", "1", 64, 1, 1, True, vendor=vendor), None)
    for k, (name, kind, platform, vendor) in enumerate(NAMES)
]


@pytest.mark.parametrize(
    ("selector", "index"),
    [
        ("", 0),
        ("1", 1),
        ("gpu", 0),
        ("CPU", 4),
        ("accelerator", 3),
        ("a2", 1),
        ("pthread", 4),
        ("nvidia:1", 1),
        ("nvidia:a2", 1),
        ("cuda:", 0),
        ("portable:cpu", 4),
        ("Portable: 0", 4),
        ("acme:", 3),
        ("pocl", 4),
        ("PoCL", 4),
        ("pocl:0", 4),
        ("pocl:pthread", 4),
        ("portable computing language", 4),
        ("amd", 2),
        ("advanced micro", 2),
        ("ROCm", 2),
        ("acme ltd", 3),
    ],
)
def test_a_device_is_named_by_index_type_name_platform_or_vendor(selector, index):
    assert choose_device(FOUND, selector)[0].index == index


@pytest.mark.parametrize("selector", ["5", "nvidia:2", "nvidia:cpu", "intel:0", ":0", "other", "-1", "h200:"])
def test_a_name_of_no_device_is_reported_with_those_that_there_are(selector):
    with pytest.raises(DeviceError, match=r"BYOC_OPENCL_DEVICE=.* names no OpenCL device; those here: \[0\] NVIDIA"):
        choose_device(FOUND, selector)


def test_the_report_says_by_which_words_devices_are_named():
    with pytest.raises(DeviceError) as raised:
        choose_device(FOUND, "metal")
    assert all(str(info) in str(raised.value) for info, _ in FOUND)
    words = r"(nvidia cuda, nvidia corporation, rocm, amd, acme: opencl, acme ltd., pocl, authenticamd)"
    assert str(raised.value).endswith(
        f"a part of the name of a device, a platform or a vendor {words}, or PLATFORM:DEVICE"
    )
    for word in ("rocm", "amd", "pocl", "authenticamd", "nvidia corporation"):
        assert choose_device(FOUND, word)


@pytest.mark.needs_opencl
def test_pocl_is_found_by_its_short_name_in_a_process_of_its_own():
    if all(info.platform != pocl.PLATFORM for info in devices.list_devices()):
        pytest.skip("PoCL is not here")
    code = "from byoc.runtime.opencl.devices import open_device; print(open_device().info.platform)"
    env = {**os.environ, devices.DEVICE_VARIABLE: "pocl"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True)
    assert done.stdout.strip() == pocl.PLATFORM, done.stderr


@pytest.mark.needs_opencl
def test_the_option_names_a_device_before_the_variable_does(monkeypatch, tmp_path):
    monkeypatch.setenv(devices.DEVICE_VARIABLE, "no such device")
    x = np.ones((1, 3, 32, 32), "float32")
    options = {"opencl": {"device": 0}}
    library = byoc.compile(inverted_residuals(32), ["opencl"], backend_options=options)
    y = library(x)
    loaded = byoc.runtime.load(library.save(tmp_path / "m.byoc"))
    assert np.array_equal(loaded(x), y)
    with pytest.raises(DeviceError, match="BYOC_OPENCL_DEVICE='no such device' names no OpenCL device; those here"):
        open_device()


@pytest.mark.needs_opencl
def test_a_device_of_the_option_that_is_not_here_is_one_sentence_or_the_hosts(tmp_path):
    x = np.ones((1, 3, 32, 32), "float32")
    with pytest.raises(UserError, match="opencl.device='no such' names no OpenCL device; those here"):
        byoc.compile(inverted_residuals(32), ["opencl"], backend_options={"opencl": {"device": "no such"}})(x)
    library = byoc.compile(
        inverted_residuals(32), ["opencl", "c"], backend_options={"opencl": {"device": "no such"}}, fallback=True
    )
    want = byoc.compile(inverted_residuals(32), ["c"])(x)
    np.testing.assert_allclose(library(x), want, rtol=1e-4, atol=1e-5)
    assert "names no OpenCL device" in str(library.fallbacks[0])


@pytest.mark.needs_opencl
@pytest.mark.slow
def test_compiling_for_a_device_that_is_not_here_warns_and_names_those_that_are(tmp_path, capsys):
    options = {"opencl": {"device": "no such"}}
    with pytest.warns(
        UserWarning, match=r"^opencl.device='no such' names no OpenCL device; those here: \[0\] .*; kernels"
    ):
        byoc.compile(inverted_residuals(32), ["opencl"], backend_options=options)
    (tmp_path / "m.onnx").write_bytes(inverted_residuals(32).SerializeToString())
    words = ["compile", str(tmp_path / "m.onnx"), "-t", "opencl", "-o", str(tmp_path / "m.byoc"), "--set"]
    assert main([*words, "opencl.device=no such"]) == 0
    assert capsys.readouterr().err.startswith("byoc compile: warning: opencl.device='no such' names no OpenCL device")
    assert main([*words, "opencl.device=0"]) == 0
    assert not capsys.readouterr().err


@pytest.mark.needs_opencl
def test_tuning_on_a_device_that_is_not_here_is_an_error():
    options = {"opencl": {"device": "no such", "mode": "tuning=fast"}}
    with pytest.raises(DeviceError, match="^opencl.device='no such' names no OpenCL device"):
        byoc.compile(inverted_residuals(32), ["opencl"], backend_options=options)


def test_without_any_device_nothing_is_said_of_the_one_that_is_asked_for(monkeypatch):
    monkeypatch.setattr(devices, "_found_devices", lambda: [])
    assert devices.why_not_here("a name that is surely no device's") is None


CHILD = """
import json, sys, threading
import numpy as np
import byoc
from byoc.runtime.opencl.devices import list_devices
x = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
libraries = [byoc.compile(sys.argv[1], ["opencl"], backend_options={"opencl": {"device": d}}) for d in sys.argv[2:]]
outputs = [None] * len(libraries)
def run(k):
    for _ in range(5):
        outputs[k] = libraries[k](x)
threads = [threading.Thread(target=run, args=(k,)) for k in range(len(libraries))]
for thread in threads: thread.start()
for thread in threads: thread.join()
used = []
for library in libraries:
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    used.append(module.session(module.symbols[0])._opened.info.index)
bound = [library.bind(library.outputs[0].name for _ in range(1)) for library in libraries]
held = bound[0].to_device(x)
crossed = bound[1].run({"x": held})[0].numpy()
print(json.dumps([len(list_devices()), used, [float(abs(y - outputs[0]).max()) for y in [*outputs, crossed]]]))
"""


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("pair", "names"), [("basic pthread", ("basic", "pthread")), ("pthread pthread", ("0", "1"))])
def test_two_libraries_run_on_two_devices_at_once_and_a_tensor_goes_from_one_to_the_other(tmp_path, pair, names):
    if open_device().info.platform != pocl.PLATFORM:
        pytest.skip("the device is not PoCL's, which makes several of one")
    (tmp_path / "m.onnx").write_bytes(inverted_residuals(32).SerializeToString())
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path / "m.onnx"), *names],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "POCL_DEVICES": pair},
    )
    assert done.returncode == 0, done.stderr
    count, used, differences = json.loads(done.stdout.splitlines()[-1])
    assert count == 2 and used == [0, 1]
    assert max(differences) < 1e-5
