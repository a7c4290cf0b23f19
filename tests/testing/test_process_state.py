"""What a backend's code changes in its process is found beside all else, and is as it was afterwards."""

import ctypes
import os
import platform
import random
import subprocess
import threading

import numpy as np
import planted
import pytest

from byoc.contract import get_backend
from byoc.ir.op import OPS
from byoc.testing.cases.operators import BackendAnswers, operator_cases
from byoc.testing.checks import CHECKS, Examiner
from byoc.testing.core.process_state import ProcessState

CHANGES = {
    "numpy's global random numbers": lambda: np.random.seed(0),
    "Python's global random numbers": lambda: random.seed(0),
    "how numpy treats errors": lambda: np.seterr(all="raise"),
    "the current folder": lambda: os.chdir("/"),
}


def examined(name, operator="nn.relu", checks=CHECKS):
    """What is found of the first case of *operator* that has numbers, by check."""
    examiner = Examiner(get_backend(name))
    cases = operator_cases(BackendAnswers(examiner.backend), OPS[operator], 0)
    case = next(c for c in cases if any(a.size for a in c.feeds[0]))
    before = ProcessState.now()
    found = {f.check: f.text for f in examiner.examine(case, checks)}
    assert before.restore() is None
    return found


FLUSH = """
#if defined(__SSE__)
#include <xmmintrin.h>
void flush(void) { _mm_setcsr(_mm_getcsr() | 0x8040); }
#elif defined(__aarch64__)
void flush(void) { unsigned long m; __asm__("mrs %0, fpcr" : "=r"(m)); __asm__("msr fpcr, %0" : : "r"(m | 1 << 24)); }
#endif
"""


@pytest.mark.needs_cc
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the program knows two processors")
def test_a_run_that_has_denormals_flushed_is_found_and_the_processor_keeps_them_again(
    backend_with, monkeypatch, tmp_path
):
    (tmp_path / "flush.c").write_text(FLUSH)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "flush.so", "flush.c"], cwd=tmp_path, check=True)
    flush = ctypes.CDLL(str(tmp_path / "flush.so")).flush
    monkeypatch.setattr(planted.PlantedModule, "disturb", lambda self: flush())
    name = backend_with("none")
    before = np.array([1e-45], "float32") * np.float32(1)
    kept = []

    def in_thread():  # whose modes are its own, so that nothing is left of a failure
        for _ in range(2):
            kept.append((examined(name), (np.array([1e-45], "float32") * np.float32(1))[0]))

    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join()
    assert before[0] > 0 and len(kept) == 2
    for found, number in kept:
        assert number > 0 and set(found) == {"process untouched"}
        assert found["process untouched"].startswith("a run changes whether the processor keeps denormal numbers")


@pytest.mark.parametrize("words", CHANGES)
def test_what_a_run_changes_is_found_beside_wrong_numbers(backend_with, monkeypatch, words):
    monkeypatch.setattr(planted.PlantedModule, "disturb", lambda self: CHANGES[words]())
    found = examined(backend_with("positive"))
    assert set(found) == {"numbers", "process untouched"}
    assert (
        found["process untouched"].startswith(f"a run changes {words} (")
        and found["process untouched"].count("changes") == 1
    )


@pytest.mark.parametrize("words", CHANGES)
def test_what_compiling_changes_is_found_beside_wrong_numbers(backend_with, monkeypatch, words):
    name = backend_with("positive")
    backend = get_backend(name)

    def compiled(function, options, compile=backend.compile):
        CHANGES[words]()
        return compile(function, options)

    monkeypatch.setattr(backend, "compile", compiled)
    found = examined(name)
    assert set(found) == {"numbers", "process untouched"}
    assert found["process untouched"].startswith(f"compiling it changes {words} (")


def test_what_a_later_check_finds_is_found_too_where_the_process_is_changed(backend_with, monkeypatch):
    monkeypatch.setattr(planted.PlantedModule, "disturb", lambda self: os.chdir("/"))
    assert set(examined(backend_with("unfilled"), "tanh", ["outputs filled", "process untouched"])) == {
        "outputs filled",
        "process untouched",
    }


def test_a_check_that_is_skipped_finds_nothing_and_restores_all_the_same(backend_with, monkeypatch):
    monkeypatch.setattr(planted.PlantedModule, "disturb", lambda self: random.seed(0))
    assert examined(backend_with("none"), checks=[c for c in CHECKS if c != "process untouched"]) == {}
