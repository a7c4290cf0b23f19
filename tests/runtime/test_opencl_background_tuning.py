"""A device that is tuned in the background: answers are right before, while kernels are exchanged, and after."""

import gc
import json
import os
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest
from inverted_residuals import inverted_residuals

import byoc
from byoc.codegen.opencl.backend import OpenCLBackend
from byoc.codegen.opencl.tuning.bench import DeviceBench
from byoc.codegen.tune.record import MEASURED
from byoc.codegen.tune.tuner import own_database
from byoc.errors import DeviceError, UserError
from byoc.runtime.executors.background_tuning import TunableModule
from byoc.runtime.opencl import module as opencl_module

pytestmark = [pytest.mark.needs_cc, pytest.mark.needs_opencl]
BLOCKS = ((16, 1, 1),)
MODEL = inverted_residuals(32, blocks=BLOCKS)
X = np.random.default_rng(0).standard_normal((1, 3, 32, 32)).astype("float32")
GPU = {"opencl": {"schedules": "gpu"}}  # whose weights lie as the host's do not


@pytest.fixture(scope="module")
def expected():
    return byoc.compile(MODEL, ["c"])(X)


def close(got, want):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def device_module(library):
    (found,) = {id(m): m for m in library.module.imports if m.type_key == "opencl"}.values()
    return found


def kernels_of(library):
    return [device_module(library).get_source(fmt) for fmt in ("", "plan")]


def last_that_was_measured(bench, trials, expected):
    return next((t.choice for t in reversed(trials) if t.state == MEASURED), expected)


@pytest.fixture(scope="module")
def tuned(tmp_path_factory, expected):
    """A library that was tuned while it ran, with another choice than the model's wherever one could be tried."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BYOC_CACHE_DIR", str(folder))
        patch.setattr(DeviceBench, "winner", last_that_was_measured)
        library = byoc.compile(MODEL, ["opencl"], tune_later=True, backend_options=GPU)
        before, runs, said = kernels_of(library), 0, set()
        tuning = library.tune_in_background("fast", seconds=3600.0)  # a busy machine reaches every kernel too
        while not tuning.wait(0):
            close(library(X), expected)
            runs += 1
            said.add(tuning.progress)
        assert runs and any(text.startswith("tuning, kernel ") for text in said), said
        return library, tuning, before, folder


def test_tuned_kernels_take_the_place_of_those_that_answered_until_then(tuned, expected):
    library, tuning, before, _ = tuned
    assert tuning.is_done and tuning.progress == "done" and not tuning.was_stopped and tuning.error is None
    assert tuning.exchanged == tuple(device_module(library).symbols)
    assert kernels_of(library)[0] != before[0]
    counts = library.device_counts
    close(library(X), expected)
    made = ("programs", "kernels", "allocations", "trials")
    assert [library.device_counts[n] - counts[n] for n in made] == [0, 0, 0, 0]  # the first run finds all ready
    assert library.device_counts["launches"] > counts["launches"]


def test_the_report_tells_trials_and_what_was_exchanged(tuned):
    library, tuning, _, _ = tuned
    report = library.report["background_tuning"]
    assert report["level"] == "fast" and report["trials"] > 0 and report["not_kept"] is None
    assert report["exchanged"] == list(tuning.exchanged) and "tuning" not in library.report
    assert f"{report['trials']} candidates" in report["text"]
    (row,) = library.report["regions"]
    assert row["constants"] == sum(a.nbytes for a in device_module(library).constant_arrays.values())


CHILD = """
import hashlib, json, sys
import numpy as np, byoc
library = byoc.compile(sys.argv[1], ["opencl"], backend_options={"opencl": {"schedules": "gpu", "mode": "tuning=fast"}})
(module,) = (m for m in library.module.imports if m.type_key == "opencl")
loaded = byoc.load(sys.argv[2])
found = [a.run({"x": np.load(sys.argv[3])})[0].tolist() for a in (library, loaded)]
print(json.dumps([library.report["tuning"]["trials"], module.get_source(), *found]))
"""


def test_a_next_process_that_compiles_tries_nothing_and_a_saved_artefact_has_the_tuned_kernels(
    tuned, expected, tmp_path
):
    library, _, _, folder = tuned
    (tmp_path / "m.onnx").write_bytes(MODEL.SerializeToString())
    np.save(tmp_path / "x.npy", X)
    words = [str(tmp_path / "m.onnx"), str(library.save(tmp_path / "m.byoc")), str(tmp_path / "x.npy")]
    done = subprocess.run(
        [sys.executable, "-c", CHILD, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "BYOC_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    trials, source, compiled, loaded = json.loads(done.stdout.splitlines()[-1])
    assert trials == 0 and source == kernels_of(library)[0]
    close(compiled, expected)
    close(loaded, expected)
    (own,) = (m for m in byoc.load(words[1]).module.imports if m.type_key == "opencl")
    assert own.get_source() == source


def test_another_tuning_finds_all_in_the_database(tuned, expected, monkeypatch):
    library, _, _, folder = tuned
    monkeypatch.setenv("BYOC_CACHE_DIR", str(folder))
    tuning = library.tune_in_background("fast")
    assert tuning.wait(300) and tuning.exchanged
    assert library.report["background_tuning"]["trials"] == 0 and library.report["background_tuning"]["known"]
    close(library(X), expected)


@pytest.fixture
def other_kernels(monkeypatch):
    """``other_kernels(library, *options)``: what tuning gives are modules compiled with these, one after the other."""
    gate = threading.Event()

    class Work:
        def __init__(self, library, made):
            self.modules = [TunableModule(device_module(library), lambda m=m: self._next(m)) for m in made]

        def _next(self, module):
            assert gate.wait(60)
            return module

        def reports_to(self, progress):
            self.progress = progress

        def entries(self, exchanged):
            return {"background_tuning": {"exchanged": list(exchanged)}}

    def use(library, *options):
        made = [device_module(byoc.compile(MODEL, ["opencl"], backend_options=o)) for o in options]
        library.tuning_source = lambda library, level, seconds: Work(library, made)
        return gate

    yield use
    gate.set()


def test_first_answers_are_the_hosts_where_it_was_asked_for_and_later_ones_the_devices(other_kernels, expected):
    library = byoc.compile(MODEL, ["opencl", "c"], fallback=True)
    gate = other_kernels(library, GPU)
    tuning = library.tune_in_background(on_host=True)
    close(library(X), expected)
    assert not tuning.is_done and library.device_counts["launches"] == 0
    assert [r.stage for r in library.fallbacks] == ["warming"]
    with pytest.raises(UserError, match="is being tuned in the background already: wait for that, or stop it"):
        library.tune_in_background()
    gate.set()
    assert tuning.wait(120)
    before = library.device_counts["launches"]
    close(library(X), expected)
    assert library.device_counts["launches"] > before
    assert len(library.fallbacks) == 1


def test_a_call_that_is_in_flight_ends_with_the_kernels_and_the_memory_that_it_began_with(expected):
    library = byoc.compile(MODEL, ["opencl"])
    root, module = library.module, device_module(library)
    other = device_module(byoc.compile(MODEL, ["opencl"], backend_options=GPU))
    (symbol,) = module.symbols
    close(library(X), expected)
    function, arrays = root.guard(symbol).function(), [np.empty((1, 10), "float32") for _ in range(3)]
    pending = [function.start([X, arrays[0]], ())]
    switch = root.exchange_kernels(module, other)
    pending.append(function.start([X, arrays[1]], ()))
    switch()
    pending.append(function.start([X, arrays[2]], pending[:1]))
    for call, array in zip(pending, arrays, strict=True):
        call.wait()
        close(array, expected)
    assert module.get_source() == other.get_source()


def test_threads_that_run_while_kernels_are_exchanged_all_get_right_answers(other_kernels, expected, tmp_path):
    library = byoc.compile(MODEL, ["opencl"])
    gate = other_kernels(library, *[GPU, {}] * 5)
    tuning, wrong, runs = library.tune_in_background(), [], []

    def work():
        while not tuning.is_done:
            runs.append(np.allclose(library(X), expected, rtol=1e-4, atol=1e-5))

    def saving():
        while not tuning.is_done:
            loaded = byoc.load(library.save(tmp_path / "m.byoc"))  # which looks at whether all fits together
            wrong.append(np.allclose(loaded(X), expected, rtol=1e-4, atol=1e-5))

    threads = [threading.Thread(target=t) for t in (work, work, saving)]
    for thread in threads:
        thread.start()
    gate.set()
    assert tuning.wait(300)
    for thread in threads:
        thread.join()
    close(library(X), expected)
    assert len(tuning.exchanged) == 10 and runs and all(runs) and all(wrong)


def test_sizes_that_ran_before_find_their_memory_behind_the_exchange():
    free = inverted_residuals(32, "n", BLOCKS)
    library = byoc.compile(free, ["opencl"])
    given = [np.random.default_rng(n).standard_normal((n, 3, 32, 32)).astype("float32") for n in (1, 2, 3)]
    want = [library(x) for x in given]
    other = device_module(byoc.compile(free, ["opencl"], backend_options=GPU))
    library.module.exchange_kernels(device_module(library), other)()
    before = library.device_counts
    for x, y in zip(given, want, strict=True):
        close(library(x), y)
    assert [library.device_counts[n] - before[n] for n in ("programs", "kernels", "allocations")] == [0, 0, 0]


def test_constants_that_no_kernel_needs_any_more_are_let_go_of(expected):
    library = byoc.compile(MODEL, ["opencl"])
    (symbol,) = device_module(library).symbols
    before = dict(library.module.constant_arrays)
    other = device_module(byoc.compile(MODEL, ["opencl"], backend_options=GPU))
    library.module.exchange_kernels(device_module(library), other)()
    after, needs = library.module.constant_arrays, library.module.needs[symbol]
    assert set(after) == {key for keys in library.module.needs.values() for key in keys} >= set(needs)
    gone = [array for key, array in before.items() if after.get(key) is not array]
    assert gone and all(after[key] is before[key] for key in after.keys() & before.keys())
    assert [s.name for s in library.module.regions[symbol].signature.constants] == list(needs)
    close(library(X), expected)


@pytest.mark.parametrize("place", ["compile", "build"])
def test_an_error_while_it_tunes_leaves_the_kernels_that_there_are(monkeypatch, tmp_path, expected, place):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    library = byoc.compile(MODEL, ["opencl"], tune_later=True)
    close(library(X), expected)
    before, made = kernels_of(library), device_module(byoc.compile(MODEL, ["opencl"], backend_options=GPU))

    def compiled(backend, function, options):
        if place == "compile":
            raise DeviceError("injected")
        return made

    def refuse(*words):
        raise DeviceError("injected")

    monkeypatch.setattr(OpenCLBackend, "compile", compiled)
    if place == "build":
        monkeypatch.setattr(opencl_module, "build_program", refuse)
    tuning = library.tune_in_background("fast")
    with pytest.raises(DeviceError, match="injected"):
        tuning.wait(120)
    assert isinstance(tuning.error, DeviceError) and tuning.is_done and tuning.exchanged == ()
    assert kernels_of(library) == before and library.report["background_tuning"]["exchanged"] == []
    close(library(X), expected)
    monkeypatch.undo()
    assert not library.fallbacks


def test_what_is_stopped_keeps_its_kernels_and_what_was_found(monkeypatch, tmp_path, expected):
    monkeypatch.setenv("BYOC_CACHE_DIR", str(tmp_path))
    library = byoc.compile(MODEL, ["opencl"], tune_later=True, backend_options=GPU)
    before, first, stopped, real = kernels_of(library), threading.Event(), threading.Event(), DeviceBench.keep

    def keep(bench, record):
        real(bench, record)
        first.set()
        assert stopped.wait(300)

    monkeypatch.setattr(DeviceBench, "keep", keep)
    tuning = library.tune_in_background("fast", seconds=3600.0)
    assert first.wait(300)
    tuning.stop()
    stopped.set()
    assert tuning.wait(300) and tuning.was_stopped and tuning.error is None and tuning.progress == "stopped"
    assert tuning.exchanged == () and kernels_of(library) == before
    assert len(own_database().read_all()) == 1
    close(library(X), expected)


ENDING = """
import sys, time
import numpy as np, byoc
library = byoc.compile(sys.argv[1], ["opencl"], tune_later=True, backend_options={"opencl": {"schedules": "gpu"}})
tuning = library.tune_in_background("heavy")
library(np.load(sys.argv[2]))
while not tuning.progress.startswith("tuning, kernel"):
    assert not tuning.is_done, tuning.error
    time.sleep(0.01)
library(np.load(sys.argv[2]))
print(tuning.is_done)
"""


def test_a_process_that_ends_while_it_tunes_ends_without_a_word(tmp_path):
    (tmp_path / "m.onnx").write_bytes(MODEL.SerializeToString())
    np.save(tmp_path / "x.npy", X)
    done = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path / "m.onnx"), str(tmp_path / "x.npy")],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "BYOC_CACHE_DIR": str(tmp_path / "cache")},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_a_library_that_was_tuned_is_gone_when_nobody_holds_it(other_kernels, expected):
    def tuned():
        library = byoc.compile(MODEL, ["opencl"], tune_later=True)
        kept = library.tuning_source  # how modules are made again, not the library
        other_kernels(library, GPU).set()
        tuning = library.tune_in_background()
        assert tuning.wait(120)
        close(library(X), expected)
        library.tuning_source = kept
        return library, tuning

    library, tuning = tuned()
    gc.collect()  # what compiling left behind
    gc.disable()
    try:
        held = weakref.ref(library)
        del library
        assert held() is None and tuning.is_done and tuning.exchanged
    finally:
        gc.enable()


def test_what_cannot_be_tuned_in_the_background_is_one_sentence(tmp_path, monkeypatch):
    library = byoc.compile(MODEL, ["opencl"])
    for kernels_alone in (library, byoc.load(library.save(tmp_path / "m.byoc"))):
        with pytest.raises(UserError, match=r"holds kernels, and not what they were made of: .* tune_later=True$"):
            kernels_alone.tune_in_background()
    with pytest.raises(UserError, match="no region of this model runs on a device: there is nothing to tune"):
        byoc.compile(MODEL, ["c"], tune_later=True).tune_in_background()
    library = byoc.compile(MODEL, ["opencl"], tune_later=True)
    with pytest.raises(UserError, match="the level of tuning is one of none, fast, .*, got 'most'"):
        library.tune_in_background("most")
    with pytest.raises(UserError, match="the level none tries nothing; give another"):
        library.tune_in_background("none")
    with pytest.raises(UserError, match="seconds are a number above 0, got 0"):
        library.tune_in_background("fast", 0)
    with pytest.raises(UserError, match=r"cannot be prepared in the background, .*: compile with fallback=True"):
        library.tune_in_background("fast", on_host=True)


def test_kernels_for_another_function_are_refused(expected):
    library = byoc.compile(MODEL, ["opencl"])
    wider = device_module(byoc.compile(inverted_residuals(64, blocks=BLOCKS), ["opencl"]))
    with pytest.raises(UserError, match="other kernels for .* must take and give what these do"):
        library.module.exchange_kernels(device_module(library), wider)
    host = next(m for m in byoc.compile(MODEL, ["c"]).module.imports)
    with pytest.raises(UserError, match="has no kernels that can be exchanged"):
        library.module.exchange_kernels(host, wider)
    close(library(X), expected)
