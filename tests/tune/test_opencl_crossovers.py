"""Where the schedules of reductions change over: measured on the device once, kept, and read by other processes."""

import json
import subprocess
import sys

import pytest

from byoc.codegen.opencl.device.profile import profile_for
from byoc.codegen.opencl.tuned import TunedFor, bench_of
from byoc.codegen.opencl.tuning import bench as bench_module
from byoc.codegen.opencl.tuning import crossover
from byoc.codegen.opencl.tuning.crossover import LARGEST, NEVER, SMALLEST, Crossovers, Point
from byoc.codegen.tune.trial_batch import Timed
from byoc.codegen.tune.worker_process import WorkerProcess
from byoc.runtime.opencl.settings import settings_of

pytestmark = pytest.mark.needs_opencl
NAMES = {"shortest_tree", "enough_rows", "long_reduction", "few_outputs"}


def here():
    return bench_of(TunedFor(profile_for({}), False))


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    return tmp_path


READ = """
import json
from byoc.codegen.opencl.device.profile import profile_for
from byoc.codegen.opencl.tuned import TunedFor, bench_of
from byoc.codegen.tune.worker_process import WorkerProcess
WorkerProcess.run = None  # whoever measures fails
print(json.dumps(bench_of(TunedFor(profile_for({}), False)).crossovers(measure=True).to_json()))
"""


def test_the_device_is_measured_once_and_another_process_reads_what_was_found(cache, monkeypatch):
    monkeypatch.setattr(crossover, "ROUNDS", 3)
    bench, sizes = here(), []
    run = WorkerProcess.run

    def noted(self, batch):
        sizes.append([d.shape for d in batch.inputs])
        return run(self, batch)

    monkeypatch.setattr(WorkerProcess, "run", noted)
    assert bench.crossovers(measure=False) == Crossovers() and not sizes
    found = bench.crossovers(measure=True)
    assert not found.failures and set(found.thresholds) == NAMES
    assert len(found.points) == len(sizes) and {p.name for p in found.points} == NAMES
    assert all(p.tree > 0 and p.serial > 0 and 1 << SMALLEST <= p.size <= 1 << LARGEST for p in found.points)
    for name, tree_wins in (("shortest_tree", True), ("long_reduction", True), ("enough_rows", False)):
        edge = found.thresholds[name]
        assert edge == NEVER or edge in {1 << k for k in range(SMALLEST, LARGEST + 1)}
        for p in (p for p in found.points if p.name == name):  # the threshold is what the points say
            assert (p.size >= edge) == ((p.tree < p.serial) == tree_wins)
    assert here().crossovers(measure=True) == found and len(sizes) == len(found.points)
    done = subprocess.run([sys.executable, "-c", READ], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == found.to_json()


def emulated(monkeypatch, seconds):
    """Have batches take *seconds*, of the tree and of the serial schedule, by the shape of the first input."""
    batches = []

    def run(self, batch):
        batches.append(batch)
        return [o if isinstance(o := f(*batch.inputs[0].shape), str) else Timed(o, o) for f in seconds]

    monkeypatch.setattr(WorkerProcess, "run", run)
    return batches


def test_what_is_kept_is_what_was_measured_and_only_that(cache, monkeypatch):
    batches = emulated(monkeypatch, [lambda rows, n: 1.0, lambda rows, n: n / 300])
    found = here().crossovers(measure=True)
    assert found.thresholds["shortest_tree"] == 512 == found.thresholds["long_reduction"]
    assert Point("shortest_tree", 512, 1.0, 512 / 300) in found.points
    number = len(batches)
    assert here().crossovers(measure=True) == here().crossovers(measure=False) == found and len(batches) == number
    assert all(batch.device == str(here().opened.info.index) and len(batch.compiled) == 2 for batch in batches)
    tree, serial = batches[0].compiled
    assert "barrier(" in tree.source and "barrier(" not in serial.source


def test_what_could_not_be_measured_is_not_kept_and_is_measured_again(cache, monkeypatch):
    emulated(monkeypatch, [lambda *shape: "failed: it crashed (SIGSEGV)", lambda *shape: 1.0])
    found = here().crossovers(measure=True)
    assert found.thresholds == {} and set(found.failures) == NAMES
    assert here().crossovers(measure=False) == Crossovers()
    batches = emulated(monkeypatch, [lambda *shape: 2.0, lambda *shape: 1.0])
    assert here().crossovers(measure=True).thresholds["shortest_tree"] == NEVER and batches


def test_what_is_damaged_or_of_other_kernels_is_measured_again(cache, monkeypatch):
    batches = emulated(monkeypatch, [lambda *shape: 1.0, lambda *shape: 2.0])
    bench = here()
    found, number = bench.crossovers(measure=True), len(batches)
    settings_of(bench.opened).put(f"{bench_module.THRESHOLDS}.{bench.context(1).digest}", {"thresholds": [3]})
    assert here().crossovers(measure=True) == found and len(batches) == 2 * number
    halves = bench_of(TunedFor(profile_for({}), True))  # other kernels, other times
    assert halves.crossovers(measure=False) == Crossovers()
