"""The cache folder behind whole runs: one that can only be read, and one file for every size that a model ran with."""

import ctypes
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.runtime.files.record_file import RecordFile
from byoc.runtime.opencl.kernel_cache import CacheEntry

pytestmark = [pytest.mark.needs_opencl, pytest.mark.needs_cc]
BLOCKS = ((16, 1, 1), (24, 6, 2))
DROP_FROM_BOUNDING_SET, WRITING_EVERYWHERE = 24, 1  # of Linux' prctl: PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
CHILD = """
import json, sys
import numpy as np
import byoc
from byoc.runtime.opencl.build import build_counts
given = dict(np.load(sys.argv[2]))
options = {"opencl": {"mode": "flush=auto"}}
library = byoc.compile(sys.argv[1], ["opencl", "c"], backend_options=options) if sys.argv[1].endswith(".onnx") else (
    byoc.load(sys.argv[1]))
found = [library.run({"x": given[name]})[0].tolist() for name in sorted(given)]
counts = build_counts()
print(json.dumps([counts.from_source, counts.from_cache, library.device_counts["trials"], found]))
"""


def images(*shapes):
    return [np.random.default_rng(k).standard_normal(shape).astype("float32") for k, shape in enumerate(shapes)]


def reference(model, arrays):
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return [session.run(None, {"x": x})[0] for x in arrays]


def as_others():
    """Without the right of root to write into every folder."""
    if os.geteuid() == 0:
        ctypes.CDLL(None).prctl(DROP_FROM_BOUNDING_SET, WRITING_EVERYWHERE, 0, 0, 0)


def run(folder, path, arrays, cache):
    """What a process says that runs the model at *path* with *cache*, and the warnings that it gave."""
    np.savez(folder / "x.npz", **{f"{k:03}": a for k, a in enumerate(arrays)})
    own = {"POCL_KERNEL_CACHE": "0", "POCL_CACHE_DIR": str(folder / "pocl"), "CUDA_CACHE_DISABLE": "1"}
    done = subprocess.run(
        [sys.executable, "-W", "always::UserWarning", "-c", CHILD, str(path), str(folder / "x.npz")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **own, "BYOC_CACHE_DIR": str(cache)},
        preexec_fn=as_others,
    )
    assert done.returncode == 0, done.stderr
    warned = [line for line in done.stderr.splitlines() if "Warning: " in line]
    return *json.loads(done.stdout.splitlines()[-1]), warned


def content(folder):
    """Each file and folder below *folder*, with its time and its bytes."""
    return {
        str(p): (p.stat().st_mtime_ns, "" if p.is_dir() else hashlib.sha256(p.read_bytes()).hexdigest())
        for p in (folder, *folder.rglob("*"))
    }


def make_read_only(folder):
    for path in (*folder.rglob("*"), folder):
        path.chmod(stat.S_IRUSR | stat.S_IRGRP | (stat.S_IXUSR | stat.S_IXGRP if path.is_dir() else 0))
    if subprocess.run(
        ["touch", str(folder / "new")], check=False, capture_output=True, preexec_fn=as_others
    ).returncode:
        return
    pytest.skip("this process cannot give up the right to write into every folder")


@pytest.fixture
def cache(tmp_path):
    """The folder of the cache, which can be removed in the end."""
    folder = tmp_path / "cache"
    folder.mkdir()
    yield folder
    for path in (folder, *folder.rglob("*")):
        path.chmod(stat.S_IRWXU)


def test_a_folder_that_can_only_be_read_serves_what_it_has_and_the_rest_is_built(cache, tmp_path):
    known, unknown = inverted_residuals(32, blocks=BLOCKS), inverted_residuals(32, blocks=BLOCKS[:1])
    for name, model in (("known", known), ("unknown", unknown)):
        (tmp_path / f"{name}.onnx").write_bytes(model.SerializeToString())
    (x,) = images((1, 3, 32, 32))
    built, _, trials, _, _ = run(tmp_path, tmp_path / "known.onnx", [x], cache)
    assert built and trials
    make_read_only(cache)
    before = content(cache)
    for name, model, is_known in (("known", known, True), ("unknown", unknown, False)):
        built, found, trials, (answer,), warned = run(tmp_path, tmp_path / f"{name}.onnx", [x], cache)
        np.testing.assert_allclose(answer, reference(model, [x])[0], rtol=1e-4, atol=1e-5)
        assert (built == 0) == is_known and (found > 0 or not is_known)
        assert trials == 0  # what was measured of the device is known to both
        assert len(warned) <= 1, warned
    assert content(cache) == before


def test_an_empty_folder_that_can_only_be_read_costs_builds_and_nothing_else(cache, tmp_path):
    model, (x,) = inverted_residuals(32, blocks=BLOCKS[:1]), images((1, 3, 32, 32))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    make_read_only(cache)
    before = content(cache)
    built, found, trials, (answer,), warned = run(tmp_path, tmp_path / "m.onnx", [x], cache)
    np.testing.assert_allclose(answer, reference(model, [x])[0], rtol=1e-4, atol=1e-5)
    assert built and not found and trials and len(warned) <= 1, warned
    assert content(cache) == before == {str(cache): before[str(cache)]}


def programs(cache):
    """The kernels of each program in the one file of the device, with its binary."""
    (file,) = (cache / "opencl").iterdir()
    records = [(CacheEntry.of(record), record) for record in RecordFile(file).records()]
    return {(record.key, entry.kernels): record.data for entry, record in records if entry.kernels}


def sized(size):
    """A model of images of *size*, whose batch is free."""
    return inverted_residuals(size, "n", BLOCKS)


def test_other_sizes_add_entries_and_those_of_earlier_ones_stay(cache, tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(cache))
    sizes, batches = (16, 32), (1, 2, 5, 3)
    saved: dict[int, pathlib.Path] = {}
    for size in sizes:  # what is compiled for each has kernels of its own
        saved[size] = byoc.compile(sized(size), ["opencl"]).save(tmp_path / f"{size}.byoc")
    kept: dict[object, bytes] = {}
    for size in sizes:
        arrays = images(*((n, 3, size, size) for n in batches))
        want = reference(sized(size), arrays)
        for count in (1, len(arrays)):
            built, _, _, found, _ = run(tmp_path, saved[size], arrays[:count], cache)
            assert (built > 0) == (count == 1)  # a free size has no kernels of its own
            for answer, right in zip(found, want, strict=False):
                np.testing.assert_allclose(answer, right, rtol=1e-4, atol=1e-5)
            now = programs(cache)
            assert kept.items() <= now.items() and (len(now) > len(kept)) == (count == 1)
            kept = now
    for size in sizes:
        arrays = images(*((n, 3, size, size) for n in reversed(batches)))
        built, found, _, answers, _ = run(tmp_path, saved[size], arrays, cache)
        assert built == 0 and found > 0
        for answer, right in zip(answers, reference(sized(size), arrays), strict=True):
            np.testing.assert_allclose(answer, right, rtol=1e-4, atol=1e-5)
    assert programs(cache) == kept
