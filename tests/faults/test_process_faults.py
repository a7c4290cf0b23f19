"""Fork, exit, kill: with C and OpenCL in use, with threads at work, and nothing left behind whatever ends a process."""

import functools
import random
import signal
import textwrap
import time

import pytest
from injection import DIGITS, SECONDS

import byoc
import byoc.runtime
from byoc.codegen.c.toolchain.object_cache import object_cache

pytestmark = pytest.mark.needs_cc
MODEL = """
import os, signal, sys, threading, time
import numpy as np
import byoc.runtime
from byoc.runtime.core.errors import DeviceError
library = byoc.runtime.load(sys.argv[1], threads=2)
x = np.ones((2, 1, 8, 8), "float32")
expected = library(x)
"""
TARGETS = ["c", pytest.param("opencl,c", marks=pytest.mark.needs_opencl)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """``saved(targets)``: the artefact of the digit classifier for them, with a stand-in where *fallback* is set."""
    folder = tmp_path_factory.mktemp("artifacts")

    @functools.cache
    def artifact(targets, fallback=False):
        path = folder / f"{targets}_{fallback}.byoc"
        return byoc.compile(DIGITS, targets.split(","), fallback=fallback).save(path)

    return artifact


@pytest.mark.parametrize("targets", TARGETS)
def test_a_child_of_a_process_that_ran_a_model_answers_and_ends(place, saved, targets):
    code = (
        MODEL
        + """
child = os.fork()
if child == 0:
    try:
        print("same" if np.array_equal(library(x), expected) else "another result", flush=True)
    except DeviceError as error:
        print(error, flush=True)
    del library
    sys.exit(0)
print(os.waitpid(child, 0)[1], np.array_equal(library(x), expected))
"""
    )
    status, output, errors = place.run(code, saved(targets))
    assert status == 0, errors
    first, second = output.splitlines()
    assert ("forked from one that had used OpenCL" in first) if "opencl" in targets else first == "same"
    assert second == "0 True"


@pytest.mark.needs_opencl
def test_a_forked_child_that_has_a_stand_in_runs_on_the_host(place, saved):
    code = (
        MODEL
        + """
child = os.fork()
if child == 0:
    same = np.allclose(library(x), expected, rtol=1e-4, atol=1e-5)
    print(same, "forked" in str(library.fallbacks), flush=True)
    sys.exit(0)
print(os.waitpid(child, 0)[1])
"""
    )
    status, output, errors = place.run(code, saved("opencl,c", True))
    assert (status, output.split()) == (0, ["True", "True", "0"]), errors


@pytest.mark.needs_opencl
def test_a_child_forked_before_opencl_was_used_may_use_it(place, saved):
    code = (
        """
import os, sys
child = os.fork()
if child == 0:
"""
        + textwrap.indent(MODEL, "    ")
        + """
    print(expected.shape, flush=True)
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    )
    status, output, errors = place.run(code, saved("opencl,c"))
    assert (status, output) == (0, "(2, 10)\n"), errors


def test_a_lock_that_another_thread_held_at_the_fork_is_free_in_the_child(place, saved):
    code = (
        MODEL
        + """
executor = library.executor()
def busy():
    while True:
        executor({library.inputs[0].name: x})
threading.Thread(target=busy, daemon=True).start()
time.sleep(0.1)
statuses = []
for _ in range(10):
    child = os.fork()
    if child == 0:
        same = np.array_equal(executor({library.inputs[0].name: x})[0], expected)
        os._exit(0 if same else 1)
    statuses.append(os.waitpid(child, 0)[1])
print(statuses)
"""
    )
    status, output, errors = place.run(code, saved("c"))
    assert (status, output) == (0, f"{[0] * 10}\n"), errors


@pytest.mark.parametrize("targets", TARGETS)
def test_leaving_while_daemon_threads_run_ends_without_an_abort(place, saved, targets):
    code = (
        MODEL
        + """
def run():
    while True:
        library(x)
for _ in range(4):
    threading.Thread(target=run, daemon=True).start()
time.sleep(0.2)
sys.exit(5)
"""
    )
    processes = [place.start(code, saved(targets)) for _ in range(3)]
    for process in processes:
        with process:
            assert (*process.communicate(timeout=SECONDS), process.returncode) == ("", "", 5)


@pytest.mark.needs_opencl
def test_using_opencl_while_the_process_ends_is_an_error_on_the_main_thread(place, saved):
    code = (
        "import atexit\natexit.register(lambda: run())\n"
        + MODEL
        + """
def run():
    try:
        library(x)
    except DeviceError as error:
        print(error)
"""
    )
    status, output, errors = place.run(code, saved("opencl,c"))
    assert status == 0 and "this process is ending" in output, errors


ENDS = {
    "exit": "sys.exit(0)",
    "_exit": "os._exit(0)",
    "kill": "os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "os.abort()",
    "fork": "child = os.fork()\nif child == 0:\n    library(x)\n    os._exit(0)\nos.waitpid(child, 0)\n"
    "os.kill(os.getpid(), signal.SIGKILL)",
}


@pytest.mark.parametrize(
    ("targets", "end"),
    [
        *(("c", end) for end in ENDS),
        pytest.param("opencl,c", "kill", marks=pytest.mark.needs_opencl),
    ],
)
def test_a_process_that_loaded_ran_and_saved_leaves_no_temporary_file(place, saved, targets, end):
    code = (
        MODEL
        + f"""
library.save("model.byoc")
{ENDS[end]}
"""
    )
    place.run(code, saved(targets))
    assert place.left() == []
    assert sorted(p.name for p in place.files.iterdir() if p.name != "core") == ["model.byoc"]


def test_loading_libraries_keeps_no_descriptor_open(place, saved):
    code = (
        MODEL
        + """
def count():
    return len(os.listdir("/proc/self/fd"))
library.save("model.byoc")
before, kept = count(), []
for _ in range(20):
    kept.append(byoc.runtime.load("model.byoc"))
    kept[-1](x)
print(count() - before)
"""
    )
    status, output, errors = place.run(code, saved("c"))
    assert (status, output) == (0, "0\n"), errors


BUILDING = """
import sys, time
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.runtime.dso.library_file import LibraryFile
print("begin", flush=True)
while True:
    library = find_compiler().build(f"long f(void) {{ return {time.time_ns()}; }}")
    LibraryFile(library).open("long f(void);")
"""
SAVING = (
    MODEL
    + """
print("begin", flush=True)
while True:
    library.save("model.byoc")
"""
)


def killed_at_random(place, code, *words, times=5):
    chance = random.Random(0)
    processes = [place.start(code, *words) for _ in range(times)]
    for process in processes:
        with process:
            assert process.stdout.readline() == "begin\n"
            time.sleep(chance.uniform(0.0, 0.3))
            process.kill()


SAVING_ONCE = MODEL + 'library.save("model.byoc")'


def test_a_process_killed_while_it_saves_leaves_a_whole_artefact(place, saved):
    killed_at_random(place, SAVING, saved("c"))
    byoc.runtime.load(place.files / "model.byoc")
    assert place.left() == []
    place.run(SAVING_ONCE, saved("c"))  # removes what one left that was killed just before it renamed, as below
    assert [p.name for p in place.files.iterdir()] == ["model.byoc"]


def test_a_process_killed_just_before_it_renames_leaves_a_whole_part_that_the_next_removes(place, saved):
    """No system call puts a file without a name over another: between its name and its place is a moment."""
    place.run(SAVING_ONCE, saved("c"))
    killed = MODEL + "os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nlibrary.save('model.byoc')"
    assert place.run(killed, saved("c"))[0] == -signal.SIGKILL
    (part,) = place.files.glob("*.part")
    byoc.runtime.load(part)
    byoc.runtime.load(place.files / "model.byoc")
    place.run(SAVING_ONCE, saved("c"))
    assert [p.name for p in place.files.iterdir()] == ["model.byoc"]


def test_a_process_killed_while_it_compiles_and_loads_leaves_no_temporary_file_and_no_damage(place):
    killed_at_random(place, BUILDING)
    time.sleep(0.3)  # compilers that nobody waits for
    assert place.left() == []
    code = BUILDING.replace("while True:", "for _ in range(2):")  # removes what the others left in the cache folder
    assert place.run(code)[:2] == (0, "begin\n")
    assert list((place.cache / "work").iterdir()) == [] and list(place.cache.rglob("*.part")) == []
    for entry in (place.cache / "c").glob("*.so"):
        assert object_cache(place.cache / "c").entry(entry.name, lambda: pytest.fail("damaged"), 1.0)


def test_a_process_killed_where_files_need_names_leaves_parts_that_the_next_removes(place, saved):
    named = "import byoc.runtime.files.whole_file as whole\nwhole._write_nameless = lambda *a: False\n" + MODEL
    slow = (
        named
        + """
import zipfile
real = zipfile.ZipFile.writestr
def write(*words):
    real(*words)
    print("writing", flush=True)
    time.sleep(60)
zipfile.ZipFile.writestr = write
library.save("model.byoc")
"""
    )
    with place.start(slow, saved("c")) as process:
        assert process.stdout.readline() == "writing\n"
        assert len(list(place.files.glob("*.part"))) == 1
        beside = named + 'library.save("other.byoc")\nprint(len(os.listdir()))'
        assert place.run(beside, saved("c"))[1] == "2\n"  # the part of a process that lives is left alone
        process.kill()
    place.run(named + 'library.save("model.byoc")', saved("c"))
    assert sorted(p.name for p in place.files.iterdir()) == ["model.byoc", "other.byoc"]


@pytest.mark.slow
def test_a_tuning_worker_that_is_killed_leaves_nothing(place):
    code = """
import os, signal, sys, threading, time
import byoc
from byoc.codegen.tune import worker_process
real = worker_process.WorkerProcess._started
def started(self):
    connection = real(self)
    if self.started == 1:
        threading.Timer(0.7, self._process.kill).start()
    return connection
worker_process.WorkerProcess._started = started
byoc.compile(sys.argv[1], ["c"], tune="fast")
os.kill(os.getpid(), signal.SIGKILL)
"""
    status, _, errors = place.run(code, DIGITS)
    assert status == -signal.SIGKILL, errors
    assert place.left() == []


def test_a_termination_while_the_compiler_is_at_work_leaves_no_temporary_file(place, tmp_path):
    script = tmp_path / "slow-cc"
    script.write_text(f'#!/bin/sh\ncase "$*" in *" -c "*) echo > {tmp_path}/begun; sleep 1;; esac\nexec cc "$@"\n')
    script.chmod(0o755)
    with place.start(BUILDING, CC=str(script)) as process:
        deadline = time.monotonic() + SECONDS
        while not (tmp_path / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(10) == -signal.SIGTERM
    assert place.left() == []
    assert place.run(BUILDING.replace("while True:", "for _ in range(1):"))[0] == 0
    assert list((place.cache / "work").iterdir()) == []
