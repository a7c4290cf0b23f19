"""Caches that are damaged, foreign, full, read-only, held, or filled by two at once: what is in them never decides."""

import errno
import json
import os
import pathlib
import time
import types

import numpy as np
import pytest
from filelock import FileLock
from injection import DIGITS, SECONDS, something_damaged

import byoc
from byoc.codegen.c.toolchain import object_cache
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.tune import database
from byoc.codegen.tune.database import Database, read_records
from byoc.driver.costs.store import CostStore
from byoc.driver.library_cache import LibraryCache
from byoc.runtime.files import whole_file
from byoc.runtime.opencl.kernel_cache import DeviceCache, DeviceIdentity

pytestmark = pytest.mark.needs_cc
X = np.linspace(-1, 1, 128, dtype="float32").reshape(2, 1, 8, 8)
SOURCE = "int forty_two(void) { return 42; }\n"
DAMAGES = ["cut", "empty", "garbage", "another's", "folder", "pipe"]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.filterwarnings("ignore:.*cache folder cannot be written")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_object_or_library_is_built_again(cache, damage):
    good = find_compiler().build(SOURCE)
    for entry in [*(cache / "c").glob("*.o"), *(cache / "c").glob("*.so")]:
        something_damaged(entry, damage)
    object_cache.object_cache.cache_clear()
    assert find_compiler().build(SOURCE) == good


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_compiled_model_is_compiled_again(tmp_path, damage):
    cache = LibraryCache(tmp_path / "libraries", 1 << 30)
    library = byoc.compile(DIGITS, ["c"])
    assert cache.write("key", library) is None and cache.read("key") is not None
    something_damaged(tmp_path / "libraries" / "key.byoc", damage)
    assert cache.read("key") is None
    problem = cache.write("key", library)
    assert (problem is None) == (damage not in ("folder", "pipe")) and (problem is None) == (
        cache.read("key") is not None
    )


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_of_kernels_is_none_and_takes_others(tmp_path, damage):
    cache = DeviceCache(DeviceIdentity("device", "platform", "1", "1"), tmp_path)
    cache.keep_program("source", "", ["k"], b"binary" * 100, 0.5)
    assert cache.program("source", "") == (b"binary" * 100, ("k",))
    something_damaged(cache.file.path, damage)
    assert cache.program("source", "") is None
    cache.keep_program("source", "", ["k"], b"new", 0.5)
    assert cache.program("source", "") == (None if damage in ("folder", "pipe") else (b"new", ("k",)))


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_measurements_are_measured_again(tmp_path, damage):
    store, facts = CostStore(tmp_path), {"backend": "c"}
    store.add(facts, [])
    (file,) = tmp_path.glob("*.jsonl")
    something_damaged(file, damage)
    assert store.measurements(facts) == {} and store.profile(facts) is None
    shown = store.add(facts, [])
    assert shown is None or "cannot be written" in shown


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_database_of_tuning_has_no_records(tmp_path, damage):
    file = tmp_path / "context.jsonl"
    file.write_bytes(b'{"version": 0}\n')
    something_damaged(file, damage)
    assert read_records(file) == [] and Database(tmp_path).read("context") == {}


def test_records_of_another_version_are_passed_over(tmp_path):
    file = tmp_path / "context.jsonl"
    file.write_text(json.dumps({"version": 10**9, "kernel": "k"}) + "\n[]\n3\n" + "[" * 100_000 + "\n")
    assert read_records(file) == []


@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EACCES])
def test_a_cache_that_takes_nothing_is_a_warning_and_what_was_made_serves_this_process(cache, monkeypatch, error):
    def refuse(*words):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(object_cache, "write_whole", refuse)
    object_cache._warn.cache_clear()
    object_cache.object_cache.cache_clear()
    with pytest.warns(UserWarning, match=rf"cannot be written \({os.strerror(error)}\).*BYOC_CACHE_DIR"):
        first = find_compiler().build(SOURCE)
    assert find_compiler().build(SOURCE) is first
    object_cache.object_cache.cache_clear()


def test_a_lock_that_is_held_for_ever_is_reported_by_the_database(tmp_path, monkeypatch):
    monkeypatch.setattr(database, "LOCK_SECONDS", 0.1)
    with FileLock(str(tmp_path / "context.jsonl.lock")):
        shown = Database(tmp_path).add([types.SimpleNamespace(context="context")])
    assert shown is not None and "cannot be written" in shown


BUILDING = """
import hashlib
from byoc.codegen.c.toolchain.compiler import find_compiler
built = [find_compiler().build(f"int f(void) {{ return {k}; }}") for k in range(4)]
print(hashlib.sha256(b"".join(built)).hexdigest())
"""


def test_two_processes_that_make_the_same_entries_make_them_equal_and_whole(place):
    processes = [place.start(BUILDING) for _ in range(3)]
    outputs = []
    for process in processes:
        with process:
            outputs.append(process.communicate(timeout=SECONDS))
    assert len({output for output, _ in outputs}) == 1 and outputs[0][0].strip(), outputs
    assert len(list((place.cache / "c").glob("*.so"))) == 4


def test_two_that_write_one_file_leave_one_of_both(tmp_path):
    def write(content):
        return lambda file: (file.write(content), whole_file.write_whole(path, lambda inner: inner.write(b"inner")))

    path = tmp_path / "file"
    whole_file.write_whole(path, write(b"outer"))
    assert path.read_bytes() == b"outer" and [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("jump", [-(10.0**9), 10.0**9])
def test_a_clock_that_jumps_loses_no_entry_and_keeps_the_cache_below_its_limit(tmp_path, monkeypatch, jump):
    library = byoc.compile(DIGITS, ["c"])
    cache = LibraryCache(tmp_path, 1 << 30)
    now = time.time
    for name, moved in (("a", 0.0), ("b", jump)):
        assert cache.write(name, library) is None
        os.utime(tmp_path / f"{name}.byoc", (now() + moved, now() + moved))
    monkeypatch.setattr(time, "time", lambda: now() + jump)
    assert cache.read("a") is not None and cache.read("b") is not None
    size = (tmp_path / "a.byoc").stat().st_size
    LibraryCache(tmp_path, size).shrink()
    assert len(list(tmp_path.glob("*.byoc"))) == 1


def test_a_file_that_was_written_in_the_future_is_watched_too(tmp_path):
    library = byoc.compile(DIGITS, ["c"])
    path = pathlib.Path(library.save(tmp_path / "m.byoc"))
    os.utime(path, (time.time() + 1e6, time.time() + 1e6))
    loaded = byoc.runtime.load(path, mapped=True)
    assert np.array_equal(loaded(X), library(X))
