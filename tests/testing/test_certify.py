"""Certification finds what is planted, each with its smallest case, and nothing where nothing is."""

import json
import os
import re

import numpy as np
import planted
import pytest

from byoc.base import time_left
from byoc.cli.main import main
from byoc.contract import get_backend
from byoc.errors import InputError, UserError
from byoc.ir.op import OPS
from byoc.runtime.kernels import get_kernel
from byoc.testing import certify, conformance_tests, read_case, read_certificate, run_cases
from byoc.testing.cases.operators import BackendAnswers, operator_cases
from byoc.testing.cases.patterns import pattern_cases
from byoc.testing.checks import Examiner
from byoc.testing.core.region_library import region_library
from byoc.testing.core.saved import SavedRunner

# the mistake, what is tried, the check that finds it, its verdict, a piece of the smallest case
PLANTED = [
    ("stride", "nn.conv2d", "numbers", "wrong", "strides=[2, 2]"),
    ("second", "tanh", "numbers", "wrong", "(%"),
    ("saved", "nn.dense", "saved and loaded", "wrong", "nn.dense"),
    ("random", "nn.relu", "same bytes", "wrong", "nn.relu"),
    ("writes", "nn.relu", "inputs untouched", "wrong", "nn.relu"),
    ("late", "nn.softmax", "compile", "refused late", "axis=1"),
    ("empty", "sum", "numbers", "wrong", "Tensor[(0"),
    ("race", "add", "threads", "wrong", "add"),
    ("outside", "add", "outputs filled", "wrong", "add"),
    ("deep", "nn.dense", "numbers", "wrong", "Tensor[(1, 201), float32]"),
    ("lower", "add", "numbers", "wrong", "add"),
    ("itself", "add", "numbers", "wrong", "add(%x0, %x0)"),
    ("constants", "add", "numbers", "wrong", "meta[relay.Constant][1]"),
    ("process", "nn.relu", "process untouched", "wrong", "nn.relu"),
]


@pytest.mark.parametrize("fault, only, check, verdict, piece", PLANTED, ids=[row[0] for row in PLANTED])
def test_a_planted_mistake_is_found_with_its_smallest_case(backend_with, fault, only, check, verdict, piece):
    found = certify(backend_with(fault), only=[only], saved=fault in ("saved", "random"))
    assert not found.ok
    assert {c.verdict for c in found.failures} == {verdict}
    small = next(s for s in found.smallest if s.check == check)
    assert piece in small.text and small.verdict == verdict
    assert f"smallest case of {only}, {check}" in str(found)


@pytest.mark.parametrize(
    "operator, words",
    [("nn.relu", "how numpy treats errors"), ("tanh", "the current folder"), ("sum", "numpy's global random numbers")],
)
def test_what_a_run_changes_in_its_process_is_named_and_restored(backend_with, operator, words):
    examiner = Examiner(get_backend(backend_with("process")))
    (case, *_) = operator_cases(BackendAnswers(examiner.backend), OPS[operator], 0)
    before = np.geterr(), os.getcwd(), np.random.get_state()[1].tolist()
    (found,) = examiner.examine(case)
    assert (found.check, found.verdict) == ("process untouched", "wrong") and words in found.text
    assert (np.geterr(), os.getcwd(), np.random.get_state()[1].tolist()) == before


def test_an_output_that_is_not_filled_is_found_on_memory_that_was_not_zero(backend_with):
    found = certify(backend_with("unfilled"), only=["tanh"], skip=["numbers", "repeated runs"], saved=False)
    checks = {f.check for c in found.failures for f in c.findings}
    assert "outputs filled" in checks and checks <= {"outputs filled", "threads"}


def test_an_output_that_is_not_filled_is_named_and_not_taken_for_wrong_numbers(backend_with):
    found = certify(backend_with("unfilled"), only=["tanh"], saved=False)
    texts = {f.text for c in found.failures for f in c.findings if f.check == "outputs filled"}
    assert any(
        re.search(r"it leaves 1 of \d+ elements of its output 0 unset: byoc.runtime.fill_outputs", t) for t in texts
    )
    assert not [f.text for c in found.failures for f in c.findings if f.check == "numbers"]


def test_a_verdict_that_raises_is_found(backend_with):
    found = certify(backend_with("verdict"), only=["split"], saved=False)
    shown = [f.text for c in found.failures for f in c.findings if f.check == "verdict"]
    assert shown and all("RuntimeError: a planted error" in text for text in shown)


def test_what_ends_its_process_is_reported_by_its_case_and_the_others_are_tried(monkeypatch, backend_with, tmp_path):
    monkeypatch.setattr(run_cases, "CRASH_SECONDS", 4.0)
    only = ["nn.softmax", "nn.relu", "tanh", "split", "nn.dense"]
    found = certify(backend_with("crash"), only=only, saved=False, cases=tmp_path, case_seconds=2, workers=2)
    assert not found.ok and not found.unfinished
    shown = {}
    for case in found.failures:
        assert case.verdict == "crashed"
        shown.setdefault(case.operator, []).extend(f"{f.check}: {f.text}" for f in case.findings)
    assert "run: its process crashed with SIGSEGV" in shown["nn.softmax"][0] and "planted.py" in shown["nn.softmax"][0]
    assert "run: its process ended itself with the exit code 3" in shown["nn.relu"]
    assert shown["tanh"][0].startswith("run: no end after 2 s (planted.py:")
    assert "verdict: its process crashed with SIGSEGV" in shown["split"][0]
    assert all(len(texts) <= 3 + 1 for texts in shown.values())  # one more was under way in the other worker
    left = next(c for c in found.cases if c.name == "split")
    assert "its verdict crashed or came to no end 3 times" in str(left) and left.verdict == "untried"
    assert next(c for c in found.cases if c.name == "nn.dense[0]").verdict == "right"
    small = next(s for s in found.smallest if s.operator == "nn.softmax")
    assert small.text.count("nn.softmax") == 1 and small.verdict == "crashed"
    case, _ = read_case(small.file and tmp_path / small.file)
    assert case.operator == "nn.softmax" and case.inputs()
    path = found.save(tmp_path / "c.json")
    assert read_certificate(path) == found and "## Crashed" in path.with_suffix(".md").read_text()


VENDOR = """
import ctypes
from byoc.contract import callee_name
from byoc.contrib.blas import BlasBackend

class Crashing(BlasBackend):
    name = "crashing"

    def compile(self, function, options):
        module = super().compile(function, options)
        module.get_function = lambda name, query_imports=False: lambda *arrays: ctypes.string_at(0)
        return module
"""


def test_a_vendors_file_that_crashes_is_reported_by_the_command_and_its_case_is_saved(
    monkeypatch, new_processes, tmp_path, capfd
):
    monkeypatch.setattr(run_cases, "CRASH_SECONDS", 0)
    (tmp_path / "crashing_file.py").write_text(VENDOR)
    path = tmp_path / "c.json"
    words = ["--import", str(tmp_path / "crashing_file.py"), "--only", "nn.dense", "--no-saved", "-o", str(path)]
    try:
        assert main(["certify", "crashing", *words, "--skip", "fallback"]) == 2
    finally:
        planted.forget("crashing")
    shown = capfd.readouterr().out
    assert "crashed: 3 cases of nn.dense" in shown and "SIGSEGV (crashing_file.py:" in shown, shown
    assert not any("copies of the process" in note for note in read_certificate(path).notes)
    assert read_case(tmp_path / "c.cases" / "00_nn.dense.npz")[0].inputs()


def test_an_interrupted_certification_keeps_what_it_found(backend_with):
    def interrupt(stage):
        if stage.startswith("20 of"):
            raise KeyboardInterrupt

    found = certify(backend_with("stride"), only=["nn.conv2d"], saved=False, workers=1, progress=interrupt)
    assert found.unfinished.startswith("it was interrupted; ") and not found.ok
    verdicts = [c.verdict for c in found.cases]
    assert verdicts.count("untried") > 3 and "wrong" in verdicts and found.smallest


def test_the_smallest_case_is_small(backend_with):
    small = certify(backend_with("stride"), only=["nn.conv2d"], saved=False).smallest[0]
    assert small.text.count("nn.") == 1
    assert small.inputs[0].startswith("x0_0 = float32[1, ")
    assert all(
        float(number) == 0 for number in small.inputs[0].partition("]")[2].replace("[", "").replace("]", "").split(",")
    )


def test_a_backend_without_mistakes_is_certified_on_every_kind_of_case(backend_with):
    found = certify(backend_with("none"))
    assert found.ok, str(found)
    kinds = {c.kind for c in found.cases}
    assert kinds >= {"sample", "constant inputs", "empty tensors", "free sizes", "combinations", "faults"}
    assert {"nn.conv2d", "split", "sum"} <= set(found.covered)
    assert any("two outputs" in c.name for c in found.cases) and any("item" in c.name for c in found.cases)


def test_faults_of_the_module_make_the_host_stand_in(backend_with):
    found = certify(backend_with("none"), only=["nn.dense"], saved=False)
    stages = {c.name.rpartition(" ")[2]: c.verdict for c in found.cases if c.kind == "faults" and "constant" in c.name}
    assert stages == {"load": "right", "initialize": "right", "launch": "right"}


@pytest.mark.parametrize("name", ["blas"])
def test_our_own_backend_is_certified(name, new_processes):
    found = certify(name)
    assert not found.failures, str(found)
    assert {"nn.dense", "blas.dense_bias_relu"} <= set(found.covered)


@pytest.mark.parametrize("name", ["json", "c", "opencl"])
@pytest.mark.slow
def test_the_cases_of_a_few_operators_are_right_in_our_generators(name):
    """C without the 51 cases of convolutions, each compiled twice: test_contraction.py, test_winograd.py have them."""
    backend = get_backend(name)
    if backend.unavailable():
        pytest.skip(f"{name}: {backend.unavailable()}")
    only = ["split", "nn.softmax", *(["nn.conv2d"] if name != "c" else [])]
    found = certify(name, only=only, saved=name != "c", seconds=60)
    assert not found.failures, str(found)


@pytest.mark.needs_cc
def test_a_position_over_nothing_is_what_generated_code_gives():
    """Certifying c found it: the kernel gave 0 for the last position of none, generated code -1."""
    kernel = get_kernel("argmax")
    assert kernel(np.zeros((0, 2), "float32"), axis=(0,), select_last_index=True).tolist() == [-1, -1]
    assert kernel(np.zeros((0, 2), "float32"), axis=(0,)).tolist() == [0, 0]
    (value,) = [
        c for c in operator_cases(BackendAnswers(get_backend("c")), OPS["argmax"], 0) if c.name == "argmax[7], empty"
    ]
    assert Examiner(get_backend("c")).examine(value, ["numbers"]) == []


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.needs_opencl
@pytest.mark.parametrize("name", ["json", "opencl", "c"])
def test_our_generators_are_certified(name):
    found = certify(name)
    assert not found.failures, str(found)


def test_a_declared_deviation_is_reported_and_is_no_failure(backend_with, monkeypatch, tmp_path):
    name = backend_with("nan")
    found = certify(name, only=["nn.relu", "tanh"], saved=False)
    assert found.ok and found.counts()["deviates"] == 1
    assert "certified with 1 declared deviation" in str(found) and "seen in 1 case of nn.relu" in str(found)
    assert read_certificate(found.save(tmp_path / "c.json")) == found
    assert "## Deviates" in (tmp_path / "c.md").read_text()
    monkeypatch.setattr(get_backend(name), "deviations", ())
    assert [f.operator for f in certify(name, only=["nn.relu", "tanh"], saved=False).failures] == ["nn.relu"]


def test_what_differs_elsewhere_than_where_a_deviation_says_is_wrong(backend_with):
    examiner = Examiner(get_backend(backend_with("nan")))
    want = np.array([np.nan, 1, 2], "float32")
    lost, other = np.array([0, 1, 2], "float32"), np.array([0, 1, 3], "float32")
    assert examiner.wrong([lost], ([want], [want])) is None
    assert "nan: 1 of 3 are 0.0 instead of nan" in examiner.deviation([lost], ([want], [want]))
    assert "expected 2" in examiner.wrong([other], ([want], [want]))
    assert "2 of 3 are nan" in examiner.wrong([np.full(3, np.nan, "float32")], ([want], [want]))
    assert examiner.deviation([want], ([want], [want])) is None


def test_each_alternative_of_a_pattern_is_a_case():
    cases = list(pattern_cases(BackendAnswers(get_backend("blas")), 0))
    forms = {tuple(word for word in ("nn.bias_add", " add(", "nn.relu") if word in c.text) for c in cases}
    assert ("nn.bias_add", "nn.relu") in forms and (" add(",) in forms
    assert any(c.whole for c in cases)


def test_a_case_that_was_written_is_read_back(tmp_path, backend_with):
    name = backend_with("stride")
    found = certify(name, only=["nn.conv2d"], saved=False, cases=tmp_path)
    case, wanted = read_case(found.smallest[0].file and tmp_path / "00_nn.conv2d.npz")
    assert Examiner(get_backend(name)).examine(case)[0].check == "numbers"
    assert Examiner(get_backend("json")).examine(case) == []
    np.testing.assert_array_equal(wanted[0], Examiner(get_backend("json")).wanted(case, case.feeds[0])[0][0])


def test_a_certificate_is_read_back_and_compared(tmp_path, backend_with):
    bad = certify(backend_with("stride"), only=["nn.conv2d"], saved=False)
    good = certify(backend_with("none"), only=["nn.conv2d"], saved=False)
    path = bad.save(tmp_path / "old.json")
    old = read_certificate(path)
    assert old == bad and json.loads(path.read_text())["summary"]["ok"] is False
    assert "## Wrong" in path.with_suffix(".md").read_text()
    changes = good.changes(old)
    assert "nn.conv2d[1]: wrong -> right" in changes.verdicts and not changes.added and not changes.removed


def test_what_is_no_certificate_is_refused(tmp_path):
    path = tmp_path / "other.json"
    path.write_text('{"schema": 99}')
    with pytest.raises(InputError, match="a certificate of schema 99; this byoc reads up to 2"):
        read_certificate(path)
    path.write_text("[]")
    with pytest.raises(InputError, match="no certificate that byoc wrote"):
        read_certificate(path)


def test_names_that_there_are_not_are_refused():
    with pytest.raises(UserError, match="skip: no check is called 'speling'; they are numbers"):
        certify("blas", skip=["speling"])
    with pytest.raises(UserError, match="backend 'blas' takes nothing that is called nn.conv2d"):
        certify("blas", only=["nn.conv2d"])


def test_what_the_time_was_too_short_for_is_untried_and_not_certified():
    found = certify("blas", only=["nn.dense"], seconds=0, skip=["fallback"], saved=False)
    assert {c.verdict for c in found.cases} == {"untried"} and not found.ok


def test_the_command_writes_a_certificate_and_says_what_changed(tmp_path, capsys, backend_with):
    name, path = backend_with("stride"), tmp_path / "c.json"
    assert main(["certify", name, "--only", "nn.conv2d", "-o", str(path), "--no-saved"]) == 2
    assert "wrong: " in capsys.readouterr().out and path.with_suffix(".md").exists()
    assert main(["certify", "blas", "--only", "nn.dense", "--no-saved", "--against", str(path), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["summary"]["ok"] and "nn.dense[0]" in shown["changes"]["added"]


test_blas_conforms = conformance_tests("blas", saved=False)


def test_the_tests_of_conformance_fail_where_something_is_wrong(backend_with):
    test = conformance_tests(backend_with("stride"), only=["nn.conv2d", "nn.relu"], saved=False)
    test("nn.relu")
    with pytest.raises(AssertionError, match="nn.conv2d"):
        test("nn.conv2d")


@pytest.mark.parametrize("model", ["digits"])
def test_a_model_on_the_backend_is_compared_with_the_reference(model, backend_with):
    import pathlib

    path = pathlib.Path(__file__).parents[2] / "examples" / "digits" / f"{model}.onnx"
    good = certify("blas", only=["nn.dense"], models=[path])
    assert next(c for c in good.cases if c.kind == "models").verdict == "right"
    bad = certify(backend_with("saved"), only=["nn.relu"], models=[path])
    shown = next(c for c in bad.cases if c.kind == "models")
    assert (shown.verdict, shown.findings[0].check) == ("wrong", "saved and loaded")


def test_an_artefact_that_crashes_where_it_is_loaded_is_reported_with_its_place(backend_with):
    name = backend_with("crash")
    (sample, *_) = operator_cases(BackendAnswers(get_backend(name)), OPS["nn.softmax"], 0)
    library = region_library(sample.function, name)
    with SavedRunner(get_backend(name)) as runner:
        with pytest.raises(UserError, match=r"its process crashed with SIGSEGV \(planted\.py:\d+, "):
            runner.run(library, [sample.inputs()])
        good = region_library(sample.function, "json")  # another process serves the next
        np.testing.assert_allclose(runner.run(good, [sample.inputs()])[0][0], good.run(sample.inputs())[0])


def test_progress_says_how_much_time_is_left(backend_with, monkeypatch):
    monkeypatch.setattr(time_left, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(time_left, "LEAST_PIECES", 2)
    stages = []
    certify(backend_with("none"), only=["nn.relu"], saved=False, workers=1, progress=stages.append)
    numbered = [stage for stage in stages if " of " in stage]
    assert re.match(r"1 of \d+: nn.relu", numbered[0]), numbered
    assert re.match(r"\d+ of \d+, about \d+ s left: nn.relu", numbered[-1]), numbered
    assert [" left: " in stage for stage in numbered] == [number >= 2 for number in range(len(numbered))]
