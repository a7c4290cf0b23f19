"""The kernel cache: a second process compiles nothing; whatever else is in the cache costs time and nothing more."""

import json
import os
import pathlib
import subprocess
import sys
from dataclasses import replace

import pytest

from byoc.runtime.core.errors import UserError
from byoc.runtime.files.record_file import FileRecord, RecordFile
from byoc.runtime.opencl import build, kernel_cache
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.drivers import pocl
from byoc.runtime.opencl.kernel_cache import CacheEntry, DeviceCache, DeviceIdentity, device_cache
from byoc.runtime.opencl.settings import DeviceSettings, settings_of

SOURCE = """
__kernel void twice(__global const float *x, __global float *y, const long n) {
  const long i = get_global_id(0);
  if (i < n) y[i] = 2.0f * x[i];
}
__kernel void turned(__global const float *x, __global float *y, const long n) {
  __local float t[64];
  const long i = get_global_id(0);
  t[get_local_id(0)] = i < n ? x[i] : 0.0f;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (i < n) y[i] = t[get_local_size(0) - 1 - get_local_id(0)];
}
"""
CHILD = """
import json, pathlib, sys
import numpy as np, pyopencl as cl
from byoc.runtime.opencl.build import build_counts, build_program
from byoc.runtime.opencl.devices import open_device
opened = open_device()
program = build_program(sys.argv[1], opened)
queue = cl.CommandQueue(opened.context)
right = []
for count, local in ((64, 64), (640, 32), (1 << 20, 64), (96, 16)):
    x = np.arange(count, dtype="float32")
    a, b = (cl.Buffer(opened.context, cl.mem_flags.READ_WRITE, x.nbytes) for _ in range(2))
    cl.enqueue_copy(queue, a, x)
    for name, want in (("twice", 2 * x), ("turned", x.reshape(-1, local)[:, ::-1].ravel())):
        y = np.empty_like(x)
        kernel = cl.Kernel(program, name)
        kernel.set_args(a, b, np.int64(count))
        cl.enqueue_nd_range_kernel(queue, kernel, (count,), (local,))
        cl.enqueue_copy(queue, y, b)
        right.append(bool((y == want).all()))
built = sorted(p.parent.name for p in pathlib.Path(sys.argv[2]).rglob("*.so"))
counts = build_counts()
print(json.dumps([all(right), counts.from_source, counts.from_cache, built]))
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """The folder of the cache, empty."""
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    build._built.cache_clear()
    yield tmp_path / "cache" / "opencl"
    build._built.cache_clear()


def start(folder, source=SOURCE, **variables):
    """A process that builds and launches with several local sizes, without the driver's own cache."""
    own = folder / "pocl"
    environment = {**os.environ, "POCL_KERNEL_CACHE": "0", "POCL_CACHE_DIR": str(own), **variables}
    environment.setdefault("CUDA_CACHE_DISABLE", "1")
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", CHILD, source, str(own)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def shown(process):
    """Whether all was right, the programs from source and from the cache, and what PoCL compiled."""
    out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


@pytest.mark.needs_opencl
def test_a_second_process_compiles_nothing_for_any_local_size(cache, tmp_path):
    assert shown(start(tmp_path)) == [True, 1, 0, compiled(["0-0-0", "0-0-0"])]
    (file,) = cache.iterdir()
    content = file.read_bytes()
    assert shown(start(tmp_path)) == [True, 0, 1, compiled(["0-0-0", "0-0-0"])]  # unpacked: there is no size of its own
    assert file.read_bytes() == content
    assert shown(start(tmp_path, SOURCE + "\n"))[1:3] == [1, 0]


def compiled(kinds):
    """What PoCL's folder holds; other drivers have none."""
    return kinds if open_device().info.platform == pocl.PLATFORM else []


@pytest.mark.slow
@pytest.mark.needs_opencl
def test_pocl_that_the_user_has_compile_for_each_size_is_left_to_its_own_cache(cache, tmp_path):
    if open_device().info.platform != pocl.PLATFORM:
        pytest.skip("the device is not PoCL's")
    right, from_source, _, kinds = shown(start(tmp_path, **{pocl.SPECIALISATION: "1"}))
    assert right and from_source == 1 and len(kinds) > 2 and "0-0-0" not in kinds
    assert not cache.exists()


@pytest.mark.needs_opencl
def test_two_processes_at_once_make_one_entry_that_a_third_takes(cache, tmp_path):
    both = [start(tmp_path), start(tmp_path)]
    assert all(shown(process)[:2] in ([True, 1], [True, 0]) for process in both)
    (file,) = cache.iterdir()
    assert {CacheEntry.of(r).kernels for r in RecordFile(file).records()} == {("turned", "twice")}
    assert shown(start(tmp_path))[:3] == [True, 0, 1]


def built(source=SOURCE):
    """How the program came about: from source, from the cache."""
    before = build.build_counts()
    build._built.cache_clear()
    build.build_program(source, open_device())
    after = build.build_counts()
    return after.from_source - before.from_source, after.from_cache - before.from_cache


@pytest.mark.needs_opencl
@pytest.mark.parametrize("damage", ["cut", "empty", "garbage", "flipped", "foreign"])
def test_a_damaged_file_is_built_from_source_again_and_then_serves(cache, damage):
    assert built() == (1, 0) and built() == (0, 1)
    (file,) = cache.iterdir()
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(
        {
            "cut": content[:middle],
            "empty": b"",
            "garbage": os.urandom(len(content)),
            "flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
            "foreign": b"{}",
        }[damage]
    )
    assert built() == (1, 0) and built() == (0, 1)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("binary", [b"", b"no binary of any driver", b"poclbin\0" + bytes(500)])
def test_a_whole_entry_that_the_driver_refuses_is_built_from_source(cache, binary):
    own = device_cache(open_device().info)
    own.keep_program(SOURCE, build.build_options(open_device()), ["turned", "twice"], binary, 0.0)
    assert own.program(SOURCE, build.build_options(open_device())) is not None
    assert built() == (1, 0)


@pytest.mark.needs_opencl
def test_an_entry_with_other_kernels_than_it_says_is_built_from_source(cache):
    other, options = SOURCE.replace("turned", "swapped"), build.build_options(open_device())
    built(other)
    own = device_cache(open_device().info)
    binary, kernels = own.program(other, options)
    assert kernels == ("swapped", "twice")
    own.keep_program(SOURCE, options, ["turned", "twice"], binary, 0.0)
    assert built() == (1, 0)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("field", ["device", "platform", "driver", "version", "machine"])
def test_an_entry_of_another_device_driver_or_version_is_stale(cache, field, monkeypatch):
    assert built() == (1, 0)
    identity = kernel_cache.identity_of(open_device().info)
    other = replace(identity, **{field: getattr(identity, field) + " of another"})
    with monkeypatch.context() as patched:
        patched.setattr(build, "identity_of", lambda info: other)
        assert built() == (1, 0) and built() == (0, 1)
    assert built() == (0, 1)


@pytest.mark.needs_opencl
@pytest.mark.parametrize("folder", ["/proc/self/cache", "a file"])
def test_a_folder_that_cannot_be_written_costs_a_build_and_settings_last_as_long_as_the_process(
    folder, tmp_path, monkeypatch
):
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / folder))
    assert built() == (1, 0) and built() == (1, 0)
    settings = settings_of(open_device())
    settings.put("threshold", 3)
    assert settings.get("threshold") == 3
    assert settings_of(open_device()).get("threshold") == 3


@pytest.mark.needs_opencl
def test_the_limit_holds_zero_keeps_nothing_and_what_is_no_number_is_reported(cache, monkeypatch):
    monkeypatch.setenv(kernel_cache.LIMIT_VARIABLE, "0")
    assert built() == (1, 0) and built() == (1, 0) and not cache.exists()
    monkeypatch.setenv(kernel_cache.LIMIT_VARIABLE, "1")
    own = DeviceCache(DEVICE, cache)
    for k in range(5):
        own.keep_program(f"source {k}", "", ["k"], bytes(300_000), 0.0)
    assert own.file.path.stat().st_size <= 1 << 20
    assert own.program("source 4", "") is not None and own.program("source 0", "") is None
    monkeypatch.setenv(kernel_cache.LIMIT_VARIABLE, "-1")
    with pytest.raises(UserError, match="BYOC_OPENCL_CACHE_MB is a number of megabytes, .*, got '-1'"):
        built()


DEVICE = DeviceIdentity("a device", "a platform", "driver 1", "0.1.0")


def test_settings_are_json_values_of_a_device_a_driver_and_a_version(tmp_path):
    settings = DeviceSettings(DeviceCache(DEVICE, tmp_path))
    values = {"peak": 1.5, "launch": {"local": [8, 8], "tile": "4x4"}, "name": "ü", "no": False, "n": 1 << 40}
    assert settings.get("peak") is None
    for key, value in values.items():
        settings.put(key, value)
    assert {key: settings.get(key) for key in values} == values
    settings.put("peak", 2.5)
    anew = DeviceSettings(DeviceCache(DEVICE, tmp_path))
    assert anew.get("peak") == settings.get("peak") == 2.5
    for field in ("device", "platform", "driver", "version", "machine"):
        assert DeviceSettings(DeviceCache(replace(DEVICE, **{field: "another"}), tmp_path)).get("peak") is None
    for value in (None, (1, 2), {1: 2}, float("nan"), float("inf")):
        with pytest.raises(ValueError):
            settings.put("peak", value)
    with pytest.raises(TypeError):
        settings.put("peak", object())
    assert settings.get("peak") == 2.5


def test_a_damaged_setting_is_none_and_the_one_before_it_counts(tmp_path):
    cache = DeviceCache(DEVICE, tmp_path)
    settings = DeviceSettings(cache)
    settings.put("a", 1)
    settings.put("a", 2)
    path = cache.file.path
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"3")
    assert settings.get("a") == 1
    RecordFile(path).add(FileRecord(DEVICE.key("setting", "a"), b"", b"no json"))
    assert settings.get("a") is None


SETTER = """
import sys
from pathlib import Path
from byoc.runtime.opencl.kernel_cache import DeviceCache, DeviceIdentity
from byoc.runtime.opencl.settings import DeviceSettings
settings = DeviceSettings(DeviceCache(DeviceIdentity("a device", "a platform", "driver 1", "0.1.0"), Path(sys.argv[1])))
for k in range(50):
    settings.put(f"{sys.argv[2]}.{k}", [sys.argv[2], k])
"""


def test_processes_that_keep_settings_at_once_lose_none(tmp_path):
    children = [subprocess.Popen([sys.executable, "-c", SETTER, str(tmp_path), str(n)]) for n in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    settings = DeviceSettings(DeviceCache(DEVICE, tmp_path))
    assert all(settings.get(f"{n}.{k}") == [str(n), k] for n in range(3) for k in range(50))


def test_the_code_of_a_processor_is_for_its_features_and_pocls_for_what_its_variables_say(monkeypatch):
    info = open_device_info("cpu", pocl.PLATFORM)
    one = kernel_cache.identity_of(info)
    monkeypatch.setenv("POCL_WORK_GROUP_METHOD", "cbs")
    two = kernel_cache.identity_of(info)
    monkeypatch.setattr(kernel_cache, "this_processor", lambda: replace(real(), features=("sse2",)))
    three = kernel_cache.identity_of(info)
    assert len({one.key("x"), two.key("x"), three.key("x")}) == 3
    assert one.file_name == two.file_name == three.file_name
    gpu = open_device_info("gpu", "NVIDIA CUDA")
    assert kernel_cache.identity_of(gpu).machine == ""


real = kernel_cache.this_processor


def open_device_info(kind, platform):
    from byoc.runtime.opencl.devices import DeviceInfo

    return DeviceInfo(0, "a device", kind, platform, "1", "1", 64, 1, 1, True)


def test_names_of_devices_make_names_of_files():
    names = [kernel_cache.file_name(d, p) for d in ("../../etc", "", "ü" * 300, "A B", "a-b") for p in ("p", "q")]
    assert len(set(names)) == len(names)
    assert all(pathlib.PurePath(name).name == name and len(name) < 80 and name[0].isalnum() for name in names)
