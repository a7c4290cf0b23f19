"""``byoc warm`` and ``byoc cache``: a warm device compiles nothing; files are listed, cleared, merged."""

import errno
import json
import os
import shutil
import subprocess
import sys

import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.cli.main import main
from byoc.runtime.files.record_file import FileRecord, RecordFile
from byoc.runtime.opencl import build, kernel_cache
from byoc.runtime.opencl.devices import open_device
from byoc.runtime.opencl.kernel_cache import DeviceCache, DeviceIdentity, device_cache, own_version

ONE = DeviceIdentity("Device One", "a platform", "driver 1", own_version())
TWO = DeviceIdentity("Device Two", "a platform", "driver 1", "0.0.1")


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    build._built.cache_clear()
    yield tmp_path / "cache" / "opencl"
    build._built.cache_clear()


def shown(capsys, *words):
    """The JSON that a command prints; the test fails where it fails."""
    assert main([*words, "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


CHILD = """
import json, sys
import numpy as np
import byoc.runtime
from byoc.runtime.opencl.build import build_counts
library = byoc.runtime.load(sys.argv[1])
library(np.ones((1, 3, 32, 32), "float32"))
print(json.dumps([build_counts().from_source, build_counts().from_cache, library.device_counts["trials"]]))
"""


@pytest.mark.needs_opencl
def test_after_warm_a_new_process_builds_nothing_and_tries_nothing(cache, tmp_path, capsys):
    model, saved = tmp_path / "m.onnx", tmp_path / "m.byoc"
    model.write_bytes(inverted_residuals(32).SerializeToString())
    mode = "opencl.mode=flush=auto"
    (first,) = shown(capsys, "warm", str(model), "--device", "0", "--set", mode)["devices"]
    assert (first["built"], first["found"], first["trials"]) == (3, 0, 1)  # the kernels, what asks, and the trial's
    assert first["file"] == str(device_cache(open_device().info).file.path)
    options = {"opencl": {"mode": "flush=auto"}}
    byoc.compile(inverted_residuals(32), ["opencl"], backend_options=options).save(saved)
    environment = {**os.environ, "POCL_KERNEL_CACHE": "0", "POCL_CACHE_DIR": str(tmp_path / "pocl")}
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(saved)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [0, 2, 0]
    build._built.cache_clear()
    (second,) = shown(capsys, "warm", str(saved))["devices"]
    assert (second["built"], second["found"], second["trials"]) == (0, 2, 0)
    listed = shown(capsys, "cache", "list")
    (file,) = listed["devices"]
    assert sorted(e["kind"] for e in file["entries"]) == ["program", "program", "program", "setting"]


@pytest.mark.needs_opencl
@pytest.mark.parametrize(
    ("words", "environment", "message"),
    [
        (["--device", "no such"], {}, "opencl.device='no such' names no OpenCL device; those here"),
        (["-t", "c"], {}, "no region of this model runs on OpenCL"),
        (["--size", "N=3"], {}, "N"),
        (["--device", ","], {}, "a name of a device is empty"),
        ([], {"BYOC_OPENCL_CACHE_MB": "0"}, "BYOC_OPENCL_CACHE_MB is 0, so that nothing is kept"),
        ([], {"BYOC_CACHE_DIR": "/proc/self/cache"}, " settings: make room there, name another"),
    ],
)
def test_what_cannot_be_warmed_is_one_sentence(cache, tmp_path, capsys, monkeypatch, words, environment, message):
    model = tmp_path / "m.onnx"
    model.write_bytes(inverted_residuals(32).SerializeToString())
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main(["warm", str(model), *words]) in (2, 3)
    said = [line for line in capsys.readouterr().err.splitlines() if not line.endswith(" s)")]  # but for progress
    assert len(said) == 1 and message in said[0]


class Full(RecordFile):
    """A file on a disk that has no room for what is longer than *room* bytes."""

    room = 0

    def add(self, record, limit=1 << 62):
        if len(record.data) > self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().add(record, limit)


@pytest.mark.needs_opencl
@pytest.mark.parametrize(("room", "message"), [(0, "3 programs and 1 settings"), (4096, "3 programs and 0 settings")])
def test_a_device_is_not_warm_where_the_disk_is_full(cache, tmp_path, capsys, monkeypatch, room, message):
    """The file of settings may be there: it is what was made that is asked for."""
    model = tmp_path / "m.onnx"
    model.write_bytes(inverted_residuals(32).SerializeToString())
    monkeypatch.setattr(Full, "room", room)
    full = Full(device_cache(open_device().info).file.path)
    monkeypatch.setattr(kernel_cache, "record_file", lambda path: full)
    assert main(["warm", str(model), "--set", "opencl.mode=flush=auto"]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.needs_opencl
def test_a_device_is_not_warm_where_the_file_has_no_room_for_all(cache, tmp_path, capsys, monkeypatch):
    """What was written first goes when the file is full: a later process would compile it."""
    model = tmp_path / "m.onnx"
    model.write_bytes(inverted_residuals(32).SerializeToString())
    monkeypatch.setattr(kernel_cache, "cache_limit", lambda: 1 << 10)
    assert main(["warm", str(model)]) == 2
    assert "raise $BYOC_OPENCL_CACHE_MB above 1024" in capsys.readouterr().err


def filled(folder):
    for identity in (ONE, TWO):
        own = DeviceCache(identity, folder)
        own.keep_program("source", "-O", ["twice", "half"], b"binary" * 1000, 0.25)
        own.keep_setting("peak", b"1.5")
    return DeviceCache(ONE, folder), DeviceCache(TWO, folder)


def test_list_shows_files_entries_sizes_and_ages(cache, capsys):
    one, _ = filled(cache)
    listed = shown(capsys, "cache", "list")
    assert listed["folder"] == str(cache) and len(listed["devices"]) == 2
    file = next(f for f in listed["devices"] if f["file"] == str(one.file.path))
    assert file["bytes"] == one.file.path.stat().st_size and 0 <= file["age_seconds"] < 600
    program, setting = file["entries"]
    assert (program["name"], program["bytes"], program["milliseconds"]) == ("twice half", 6000, 250)
    assert (setting["kind"], setting["name"], setting["version"]) == ("setting", "peak", own_version())
    assert len(shown(capsys, "cache", "list", "--device", "one")["devices"]) == 1
    assert main(["cache", "list"]) == 0
    text = capsys.readouterr().out
    assert "Device One: " in text and "program of 2 kernels (twice): 5.9 KiB, built in 0.25 s" in text


def test_clear_removes_all_or_one_device_or_what_is_stale(cache, capsys):
    one, two = filled(cache)
    assert shown(capsys, "cache", "clear", "--device", "device two") == {"removed": 2}
    assert one.setting("peak") == b"1.5" and two.setting("peak") is None and not two.file.path.exists()
    filled(cache)
    assert shown(capsys, "cache", "clear", "--stale") == {"removed": 2}
    assert one.program("source", "-O") is not None and two.program("source", "-O") is None
    assert shown(capsys, "cache", "clear") == {"removed": 2}
    assert list(cache.iterdir()) == [] and shown(capsys, "cache", "list")["devices"] == []
    assert shown(capsys, "cache", "clear") == {"removed": 0}


def test_clear_removes_compiled_models(cache, capsys):
    libraries = cache.parent / "libraries"
    libraries.mkdir(parents=True)
    (libraries / "a.byoc").write_bytes(bytes(100))
    assert shown(capsys, "cache", "list")["libraries"]["bytes"] == 100
    assert shown(capsys, "cache", "clear", "--libraries") == {"removed_libraries": 1}
    assert not list(libraries.iterdir())


def test_merge_takes_what_is_new_into_the_files_of_the_devices(cache, tmp_path, capsys):
    one, two = filled(tmp_path / "another machine")
    own = DeviceCache(ONE, cache)
    own.keep_setting("peak", b"0.5")
    own.keep_setting("threshold", b"7")
    files = [str(cached.file.path) for cached in (one, two)]
    assert shown(capsys, "cache", "merge", *files)["taken"] == 4
    assert own.program("source", "-O") == (b"binary" * 1000, ("twice", "half"))
    assert (own.setting("peak"), own.setting("threshold")) == (b"1.5", b"7")
    assert DeviceCache(TWO, cache).setting("peak") == b"1.5"
    again = shown(capsys, "cache", "merge", *files)
    assert (again["taken"], again["known"], again["files"]) == (0, 4, [])


def test_merge_into_a_file_takes_both_and_leaves_out_what_is_damaged(cache, tmp_path, capsys):
    one, two = filled(tmp_path / "a")
    content = bytearray(two.file.path.read_bytes())
    content[-1] ^= 1  # in the data of the last record, the setting
    two.file.path.write_bytes(content)
    RecordFile(one.file.path).add(FileRecord(bytes(32), b"{}", b"of nobody that we know"))
    target = tmp_path / "both.kernels"
    merged = shown(capsys, "cache", "merge", str(one.file.path), str(two.file.path), "-o", str(target))
    assert merged == {"taken": 3, "known": 0, "files": [str(target)]}
    assert len(RecordFile(target).records()) == 3 and not cache.exists()
    shutil.copy(target, tmp_path / "copy.kernels")
    assert shown(capsys, "cache", "merge", str(target), "-o", str(target))["known"] == 3


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["merge"], "needs the files to merge"),
        (["merge", "setup.cfg"], "setup.cfg: expected a cache file of a device"),
        (["merge", "no such file"], "no such file: the cache file cannot be read"),
        (["merge", "x", "--device", "y"], "--device is not for byoc cache merge"),
        (["list", "x"], "byoc cache list takes no files, got x"),
        (["list", "--stale"], "--stale and --libraries are for byoc cache clear"),
        (["clear", "-o", "x"], "--output is not for byoc cache clear"),
        (["clear", "--libraries", "--stale"], "leave --device and --stale out"),
    ],
)
def test_mistakes_are_one_sentence(cache, capsys, words, message):
    assert main(["cache", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and len(error.strip().splitlines()) == 1


def test_a_cache_that_cannot_be_changed_is_one_sentence(cache, capsys, monkeypatch, tmp_path):
    one, _ = filled(cache)

    def refuse(*words, **named):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(type(one.file.path), "unlink", refuse)
    assert main(["cache", "clear"]) == 2
    assert "the cache file cannot be changed (Read-only file system)" in capsys.readouterr().err
    monkeypatch.setattr(RecordFile, "add", refuse)
    assert main(["cache", "merge", str(one.file.path), "-o", str(tmp_path / "o")]) == 2
    assert "the cache file cannot be written (Read-only file system)" in capsys.readouterr().err
