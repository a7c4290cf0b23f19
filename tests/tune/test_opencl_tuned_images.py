"""Tuning of OpenCL kernels over images from end to end: what is tried, that images stay images, a second process."""

import dataclasses
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import onnxruntime
import pytest
from opencl_network import example, network

import byoc
from byoc.codegen.opencl.device.profile import profile_for
from byoc.codegen.opencl.tuned import TunedFor, bench_of
from byoc.codegen.opencl.tuning import device_batch
from byoc.codegen.opencl.tuning.device_batch import DeviceCandidate
from byoc.codegen.opencl.tuning.trials import DeviceTrialRunner
from byoc.codegen.tune.level import LEVELS
from byoc.codegen.tune.tuner import Tuner, own_database

pytestmark = pytest.mark.needs_opencl
IMAGES = {"opencl": {"mode": "memory=image"}}


class PatientTuner(Tuner):
    """One that reaches every kernel on a busy machine too, and remembers what could be tried."""

    def __init__(self, level="fast"):
        super().__init__(dataclasses.replace(LEVELS[level], seconds=3600.0), own_database())
        self.spaces = {}

    def _tune(self, spaces, at):
        self.spaces.update({s.kernel: s for s in spaces})
        return super()._tune(spaces, at)


def part_of(library):
    (found,) = [m for m in library.module.imports if m.type_key == "opencl"]
    return found


def code_of(library):
    return [part_of(library).get_source(fmt) for fmt in ("", "plan")]


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A library whose kernels over images were tuned with empty caches, the tuner, and the folder of these."""
    folder = tmp_path_factory.mktemp("images")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYOC_CACHE_DIR", str(folder))
        tuner = PatientTuner()
        return byoc.compile(network(), targets=["opencl"], tune=tuner, backend_options=IMAGES), tuner, folder


@pytest.fixture
def cache(first, tmp_path, monkeypatch):
    """The caches as they were behind the first compilation."""
    folder = tmp_path / "cache"
    shutil.copytree(first[2], folder)
    monkeypatch.setenv("BYOC_CACHE_DIR", str(folder))
    return folder


def test_the_report_tells_what_was_tried_over_images(first):
    report = first[0].report["tuning"]
    assert report["trials"] == sum(len(row["trials"]) for row in report["tuned"]) > 4 and report["notes"] == []
    over = [row for row in report["tuned"] if "by texels" in row["kernel"]]
    assert over and all(" image" in row["kernel"] for row in over)
    assert {"texel", "texels"} == {t["choice"]["kind"] for row in over for t in row["trials"]}
    for row in over:
        assert row["trials"][0]["choice"] == row["expected"] == {"kind": "texel", "local": 64}
        assert {"kind": "texel", "local": 0} in [t["choice"] for t in row["trials"]]
        assert all(t["shortest"] is not None or t["state"].startswith("failed: ") for t in row["trials"])
    assert f"{report['trials']} candidates" in report["text"]


def test_tuning_changes_no_memory_and_no_result(first, cache):
    untuned = byoc.compile(network(), targets=["opencl"], backend_options=IMAGES)
    (tuned_plan,), (plan,) = part_of(first[0]).plans, part_of(untuned).plans
    assert plan.images and tuned_plan.images == plan.images and tuned_plan.notes == plan.notes
    session = onnxruntime.InferenceSession(network(), providers=["CPUExecutionProvider"])
    (want,) = session.run(None, {"x": example()})
    np.testing.assert_allclose(first[0].run({"x": example()})[0], want, rtol=1e-4, atol=1e-6)


def test_a_second_process_tries_nothing_and_makes_the_same_kernels(first, cache):
    code = (
        "import json, sys, byoc; sys.path.insert(0, sys.argv[1]);"
        "from opencl_network import network; from test_opencl_tuned_images import code_of;"
        "options = {'opencl': {'mode': 'tuning=fast,memory=image'}};"
        "l = byoc.compile(network(), targets=['opencl'], backend_options=options);"
        "print(json.dumps([l.report['tuning']['trials'], len(l.report['tuning']['known']), code_of(l)]))"
    )
    command = [sys.executable, "-c", code, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    known = len(first[0].report["tuning"]["tuned"])
    assert json.loads(done.stdout.splitlines()[-1]) == [0, known, code_of(first[0])]


def here(batch):
    return batch.run(lambda number: None)


def trial_runner(change=lambda choice, source, plan: (source, plan), seen=None):
    """Trials in this process, in which *change* is what a driver, or a mistake of ours, does to a candidate."""
    bench = bench_of(TunedFor(profile_for({}), False, memory="image"))

    def emit(space, program, only):
        made = bench.emit(space, program, only)
        if seen is not None:
            seen.append(made)
        return DeviceCandidate(*change(only.choice, made.source, made.plan), made.constants, made.uncounted)

    return DeviceTrialRunner(bench.alone, emit, 3, here)


def convolution_space(first):
    """The space of the larger convolution, a texel of which has one channel and three of padding."""
    return next(s for k, s in first[1].spaces.items() if "float32[21, 16, 3, 3] image" in k)


def test_every_tile_and_group_gives_the_same_whether_or_not_it_divides_the_range(first):
    space = convolution_space(first)
    kinds = {}
    for _, choice in space.ranked:
        kinds.setdefault((choice.kind, *(v for n, v in choice.parameters if n != "local")), []).append(choice)
    candidates = [space.expected, *(c for own in kinds.values() for c in own[1:4])]
    seen = []
    trials = trial_runner(seen=seen).trials(space, candidates, None)
    assert len(kinds) == 8 and [t.state for t in trials if t.shortest is None] == []
    (launches,) = {len(c.plan.launches) for c in seen}
    assert launches == 4 and all(len(c.uncounted) == 3 for c in seen), "two copies before, one behind"


def test_rows_that_read_images_are_tried_over_images(first):
    other = [s for s in first[1].spaces.values() if s.images and not s.by_texels]
    assert other
    for space in other:
        trials = trial_runner().trials(space, LEVELS["fast"].of(space), None)
        assert [t.state for t in trials if t.shortest is None] == []


def test_a_candidate_that_is_refused_too_large_or_wrong_is_skipped_for_its_reason(first):
    space = convolution_space(first)
    candidates = [c for _, c in space.ranked][:5]

    def change(choice, source, plan):
        if choice == candidates[1]:
            return source.replace("__kernel", "__kernel nonsense"), plan
        if choice == candidates[2]:
            launch = plan.launches[2]
            large = dataclasses.replace(launch.variants[0], local=1 << 16)
            launches = (*plan.launches[:2], dataclasses.replace(launch, variants=(large,)), *plan.launches[3:])
            return source, dataclasses.replace(plan, launches=launches)
        return (source.replace("= 0.0f;", "= 0.5f;") if choice == candidates[3] else source), plan

    trials = trial_runner(change).trials(space, candidates, None)
    assert "refused the generated kernels" in trials[1].state
    assert "work-items a group, and 65536 are chosen" in trials[2].state
    assert trials[3].state == "failed: its result is another one"
    assert trials[0].shortest and trials[4].shortest


def test_copies_around_a_kernel_are_not_counted(first, monkeypatch):
    space, seen, counted = convolution_space(first), [], []
    trial_runner(seen=seen).trials(space, [space.expected], None)
    (candidate,) = seen
    ready, finish = device_batch._ReadyCandidate, device_batch._ReadyCandidate.finish

    def noted(self):
        started, before = len(self.started), self.total
        finish(self)
        if started == 1:  # all of whose events are there
            parts = {e.name: e.end - e.begin for e in self.events}
            counted.append((self.total - before, parts))

    monkeypatch.setattr(ready, "finish", noted)
    trial_runner().trials(space, [space.expected], None)
    assert counted
    for seconds, parts in counted:
        kernels = {n: s for n, s in parts.items() if n.startswith("kernel")}
        assert len(kernels) == 4 and len(set(kernels) & candidate.uncounted) == 3
        assert seconds == pytest.approx(sum(s for n, s in kernels.items() if n not in candidate.uncounted))


@pytest.mark.slow
def test_both_memories_are_tuned_before_they_are_tried_against_each_other(cache):
    library = byoc.compile(
        network(), targets=["opencl"], tune=PatientTuner(), backend_options={"opencl": {"mode": "memory=trial"}}
    )
    report = library.report["tuning"]
    assert any("by texels" in row["kernel"] for row in report["known"])
    assert report["tuned"] and not any("by texels" in row["kernel"] for row in report["tuned"])
    (note,) = [n for r in library.report["regions"] for n in r["region_notes"] if n.startswith("memory=trial")]
    assert "medians of" in note
