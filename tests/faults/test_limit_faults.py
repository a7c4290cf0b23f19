"""Limits of a process: descriptors, memory, threads. Each is one sentence, or the work is done; never a hang."""

import numpy as np
import pytest
from injection import DIGITS, one_sentence

import byoc
from byoc import relay
from byoc.driver.compiler import entry
from byoc.errors import OutOfMemoryError, UserError
from byoc.relay import functor
from byoc.runtime.dso.aot import AotExecutor

pytestmark = pytest.mark.needs_cc
LIMIT = "import resource\nresource.setrlimit(resource.{kind}, ({value}, {value}))"
TIGHT = """
import resource, sys
import numpy as np, onnx
import byoc, byoc.runtime
from byoc.driver import compile as loaded
from byoc.errors import UserError
model, folder = sys.argv[1:]
library = byoc.compile(model, ["c"])
library.save("m.byoc")
x = np.ones((2, 1, 8, 8), "float32")
library(x)
huge = np.ones((200_000, 1, 8, 8), "float32")
pages = int(open("/proc/self/statm").read().split()[0])
limit = pages * resource.getpagesize() + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
for name, work in {
    "run": lambda: library(huge),
    "executor": lambda: byoc.runtime.load("m.byoc", threads=64)(huge),
    "compile": lambda: byoc.compile(model, ["c"], backend_options={"c": {"flags": ["-DANOTHER"]}}),
    "save": lambda: library.save("n.byoc"),
    "load": lambda: byoc.runtime.load("m.byoc", mapped=True),
}.items():
    try:
        work()
        print(name, "done")
    except UserError as error:
        assert len(str(error).splitlines()) == 1
        print(name, type(error).__name__)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("RLIMIT_NOFILE", 12),
        ("RLIMIT_NOFILE", 7),
        ("RLIMIT_NOFILE", 5),
        ("RLIMIT_AS", 200 << 20),
        ("RLIMIT_AS", 260 << 20),
        ("RLIMIT_FSIZE", 4096),
        ("RLIMIT_FSIZE", 0),
        ("RLIMIT_STACK", 1 << 20),
    ],
)
def test_a_command_under_a_limit_does_its_work_or_prints_one_sentence(place, kind, value):
    before = LIMIT.format(kind=kind, value=value)
    status, output, errors = place.command("run", DIGITS, "--random", before=before, OPENBLAS_NUM_THREADS="1")
    if status == 0:
        assert "probabilities" in output
        assert errors == "" or (kind == "RLIMIT_FSIZE" and one_sentence(errors))
    else:
        assert status in (2, 3) and one_sentence(errors), errors


def test_with_twelve_descriptors_an_artefact_is_loaded_run_and_saved(place):
    byoc.compile(DIGITS, ["c"]).save(place.files / "m.byoc")
    code = (
        LIMIT.format(kind="RLIMIT_NOFILE", value=12)
        + """
import numpy as np
import byoc.runtime
for mapped in (False, True):
    library = byoc.runtime.load("m.byoc", mapped=mapped)
    print(library(np.ones((2, 1, 8, 8), "float32")).shape)
    library.save("n.byoc")
"""
    )
    status, output, errors = place.run(code)
    assert (status, output) == (0, "(2, 10)\n" * 2), errors


@pytest.mark.slow
@pytest.mark.parametrize("spare", [1 << 20, 30 << 20])
def test_every_step_under_too_little_memory_works_or_is_an_error_of_ours(place, spare):
    status, output, errors = place.run(TIGHT, DIGITS, spare)
    assert status == 0, errors
    shown = dict(line.split() for line in output.splitlines())
    assert set(shown) == {"run", "executor", "compile", "save", "load"}
    assert shown["run"] == "OutOfMemoryError"


def test_too_little_memory_to_load_the_command_line_is_one_sentence(place):
    code = (
        LIMIT.format(kind="RLIMIT_AS", value=60 << 20)
        + "\nfrom byoc.__main__ import main\nimport sys\nsys.exit(main())"
    )
    status, _, errors = place.run(code, "doctor")
    assert status == 3 and one_sentence(errors) and errors.startswith("byoc doctor: its parts cannot be loaded here: ")


def test_too_little_memory_while_compiling_is_one_sentence(monkeypatch):
    def fail(*words):
        raise MemoryError("Unable to allocate 3 TiB")

    monkeypatch.setattr(entry, "_compiled", fail)
    with pytest.raises(OutOfMemoryError, match=r"too little memory to compile the model \(Unable to allocate 3 TiB\)"):
        byoc.compile(DIGITS, ["c"])


def test_too_little_memory_in_a_run_is_one_sentence_and_the_next_run_works(monkeypatch):
    library = byoc.compile(DIGITS, ["c"])
    x = np.ones((2, 1, 8, 8), "float32")
    expected = library(x)

    def fail(*words):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(AotExecutor, "compute", fail)
        with pytest.raises(OutOfMemoryError, match=r"too little memory for a run \(how much is not known\)"):
            library(x)
    assert np.array_equal(library(x), expected)


def test_a_deep_program_without_a_thread_to_walk_it_is_one_sentence(monkeypatch):
    value = relay.var("x", shape=(1,))
    for _ in range(20_000):
        value = relay.negative(value)

    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(functor.threading.Thread, "start", refuse)
    with pytest.raises(UserError, match="gives no thread with .* MB of stack for a deeply nested program"):
        functor.ExprMutator().visit(value)
