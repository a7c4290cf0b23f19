"""How kernels get into the queue: flushed every n, measured once for a device, or recorded; outputs are the same."""

import json
import subprocess
import sys
import warnings

import numpy as np
import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.runtime.core.errors import ArtifactError, DeviceError
from byoc.runtime.opencl import flush_trial, session
from byoc.runtime.opencl.commands import command_buffer, launches
from byoc.runtime.opencl.commands.command_buffer import CommandBuffers
from byoc.runtime.opencl.commands.options import RunOptions
from byoc.runtime.opencl.devices import import_pyopencl, open_device

pytestmark = pytest.mark.needs_opencl
X = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
EVERY = {"": 0, "flush=none": 0, "flush=1": 1, "flush=2": 2, "flush=10": 10}


def compiled(mode=""):
    return byoc.compile(inverted_residuals(32), ["opencl"], backend_options={"opencl": {"mode": mode}})


def counted(library, x=X):
    """The output of a run, and what the device was asked for in it."""
    before = library.device_counts
    y = library(x)
    return y, {name: count - before[name] for name, count in library.device_counts.items()}


@pytest.fixture(scope="module")
def plain():
    library = compiled("flush=none,record=none")
    library.prepare()
    return counted(library)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("mode", EVERY)
def test_a_queue_is_flushed_every_n_kernels_and_outputs_are_the_same(mode, plain, cache):
    want, asked = plain
    library = compiled(f"{mode},record=none")
    library.prepare()
    y, found = counted(library)
    assert np.array_equal(y, want)
    assert found["launches"] == asked["launches"] > 10
    assert found["flushes"] == (found["launches"] // EVERY[mode] if EVERY[mode] else 0)
    assert (found["handovers"], found["trials"]) == (1, 0)


def test_no_run_finishes_the_queue(plain, monkeypatch):
    def finish(self):
        raise AssertionError("clFinish inside a run")

    monkeypatch.setattr(import_pyopencl().CommandQueue, "finish", finish)
    with pytest.raises(AssertionError):
        import_pyopencl().CommandQueue(open_device().context).finish()
    assert np.array_equal(compiled("flush=2")(X), plain[0])


CHILD = """
import json, sys
import numpy as np
import byoc.runtime
library = byoc.runtime.load(sys.argv[1])
library.prepare()
before = library.device_counts
library(np.load(sys.argv[2]))
after = library.device_counts
print(json.dumps([before, {name: after[name] - before[name] for name in after}]))
"""


def test_auto_measures_once_for_a_device_and_a_new_process_takes_what_was_kept(cache, tmp_path):
    library = compiled("flush=auto")
    path = library.save(tmp_path / "m.byoc")
    np.save(tmp_path / "x.npy", X)
    library.prepare()
    assert library.device_counts["trials"] == 1
    kept = flush_trial.settings_of(open_device()).get(flush_trial.SETTING)
    assert kept in (0, *flush_trial.CANDIDATES)
    words = [sys.executable, "-c", CHILD, str(path), str(tmp_path / "x.npy")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    before, run = json.loads(done.stdout.splitlines()[-1])
    assert before["trials"] == 0
    assert run["flushes"] == (run["launches"] // kept if kept and not run["recorded"] else 0)
    assert [run[name] for name in ("programs", "kernels", "allocations", "trials")] == [0, 0, 0, 0]


def test_what_was_measured_is_taken_where_nothing_is_said(cache, plain):
    settings = flush_trial.settings_of(open_device())
    settings.put(flush_trial.SETTING, 10)
    y, found = counted(compiled("record=none"))
    assert np.array_equal(y, plain[0]) and found["flushes"] == found["launches"] // 10 and found["trials"] == 0
    settings.put(flush_trial.SETTING, "often")
    assert counted(compiled("record=none"))[1]["flushes"] == 0


def test_a_trial_that_never_ends_is_one_sentence(monkeypatch, cache):
    def fail(function, seconds):
        raise flush_trial.TimeLimitError(f"did not end within {seconds:g} s")

    monkeypatch.setattr(flush_trial, "bounded", fail)
    with pytest.raises(DeviceError, match=r"a trial of when to flush .* did not end within .* flush=none"):
        compiled("flush=auto")(X)


class Recorder:
    """In the place of what records kernels: puts them into the queue one by one, whenever it is asked to."""

    made = 0

    def __init__(self, buffers, queue, kernels):
        Recorder.made += 1
        self.queue, self.kernels, self.runs_twice = queue, list(kernels), True

    def enqueue(self):
        for kernel in self.kernels:
            import_pyopencl().enqueue_nd_range_kernel(self.queue, *kernel)


@pytest.fixture
def recording(monkeypatch):
    monkeypatch.setattr(session, "command_buffers", lambda cl, device: CommandBuffers.__new__(CommandBuffers))
    monkeypatch.setattr(launches, "RecordedKernels", Recorder)
    monkeypatch.setattr(Recorder, "made", 0)


@pytest.mark.parametrize(("mode", "recorded"), [("", 1), ("record=batch", 1), ("record=none", 0), ("flush=2", 0)])
def test_kernels_are_recorded_once_where_the_device_offers_it(recording, plain, mode, recorded):
    library = compiled(mode)
    library.prepare()
    for _ in range(2):
        y, found = counted(library)
        assert np.array_equal(y, plain[0])
        assert (found["recorded"], found["launches"]) == (recorded, plain[1]["launches"])
    assert Recorder.made == recorded


def test_a_device_that_takes_no_recording_gets_the_kernels_one_by_one(recording, plain, monkeypatch):
    def refuse(*words):
        raise DeviceError("clFinalizeCommandBufferKHR gave the error -6")

    monkeypatch.setattr(launches, "RecordedKernels", refuse)
    y, found = counted(compiled())
    assert np.array_equal(y, plain[0]) and found["recorded"] == 0 and found["launches"] == plain[1]["launches"]


def test_a_recording_that_is_in_the_queue_and_may_not_be_there_twice_goes_one_by_one(recording, plain, monkeypatch):
    library = compiled()
    library.prepare()
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    (made,) = [binding.launches for binding in module.session(module.symbols[0]).bindings._made.values()]
    made._recorded.runs_twice = False
    monkeypatch.setattr(session, "is_complete", lambda event: False)
    assert counted(library)[1]["recorded"] == 0
    monkeypatch.setattr(session, "is_complete", lambda event: True)
    y, found = counted(library)
    assert found["recorded"] == 1 and np.array_equal(y, plain[0])


def test_a_profile_times_kernels_one_by_one(recording, plain):
    library = compiled()
    library(X)
    (module,) = [m for m in library.module.walk() if m.type_key == "opencl"]
    module.profile(True)
    _, found = counted(library)
    events = module.profile(False)
    assert found["recorded"] == 0 and len(events) >= plain[1]["launches"]
    assert counted(library)[1]["recorded"] == 1


def test_a_device_that_records_gives_the_same_outputs(plain):
    found = command_buffer.command_buffers(import_pyopencl(), open_device().device)
    if isinstance(found, str):
        assert command_buffer.EXTENSION in found
        with pytest.warns(UserWarning, match="opencl.mode says record=batch, and kernels go one by one: the O"):
            compiled("record=batch")(X)
        pytest.skip(found)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library = compiled("record=batch")
        library.prepare()
    for _ in range(3):
        y, run = counted(library)
        assert np.array_equal(y, plain[0]) and run["recorded"] == 1


def test_options_of_a_run_are_read_back_and_others_refused():
    for options in (RunOptions(), RunOptions("10", "none", "gpu"), RunOptions(device="PoCL:0")):
        assert RunOptions.from_json(options.to_json(), "plan.json.run") == options
    for shown in ({"flush": "3"}, {"record": "op"}, {"speed": "1"}, {"device": 1}, []):
        with pytest.raises(ArtifactError, match=r"plan\.json\.run"):
            RunOptions.from_json(shown, "plan.json.run")


def test_launches_without_events_give_the_same_outputs_and_a_refused_one_is_reported(plain, cache, monkeypatch):
    monkeypatch.setattr(session, "gains_by_quiet", lambda info: True)  # as on a GPU
    library = compiled("flush=none,record=none")
    library.prepare()
    own = next(s for m in library.module.walk() if m.type_key == "opencl" for s in m._sessions.values())
    (binding,) = own.bindings._made.values()
    put = []
    quiet = binding.launches._quiet
    monkeypatch.setattr(quiet, "enqueue", lambda number, real=quiet.enqueue: put.append(number) or real(number))
    y, found = counted(library)
    assert np.array_equal(y, plain[0])
    assert put == list(range(found["launches"])) and found["launches"] == plain[1]["launches"]
    monkeypatch.setattr(quiet, "enqueue", lambda number: False)  # the binding is asked then
    y, _ = counted(library)
    assert np.array_equal(y, plain[0])
