"""What a backend's code changes in its process is found beside all else, and is as it was afterwards."""

import os
import random

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
    assert before.changed() is None
    return found


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
