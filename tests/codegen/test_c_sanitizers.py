"""Whole test files with generated C under sanitizers, in processes of their own.

Under the address sanitizer every buffer of an arena has memory of its own, with bytes around it that nobody may touch;
``test_sanitize.py`` proves that what oversteps a buffer is found, and that a race of a team's threads is.
"""

from __future__ import annotations

import pathlib

import pytest
from sanitized import run_under

TESTS = pathlib.Path(__file__).parents[1]
ADDRESSES = {  # file -> the tests of it
    "codegen/test_c_schedules.py": "",
    "codegen/test_winograd.py": "",
    "codegen/test_contraction.py": "",
    "codegen/test_c_rows.py": "",
    "codegen/test_c_every_operator.py": "",
    "codegen/test_c_routines.py": "",
    "codegen/test_recurrences.py": "not opencl",
    "codegen/test_attention_memory.py": "",
    "codegen/test_attention_free_sizes.py": "",
    "codegen/test_c_module.py": "",
    "relay/test_onnx_node_tests_compiled.py": "",
    "relay/test_onnx_recurrent.py": "compiled",
    "end_to_end/test_random_models.py": "generated_c_alone",
    "end_to_end/test_recurrent_models.py": "generated_c_alone",
}
RACES = {
    "codegen/test_c_rows.py": "",
    "codegen/test_contraction.py": "",
    "codegen/test_winograd.py": "",
    "end_to_end/test_random_models.py": "generated_c_alone",
    "end_to_end/test_recurrent_models.py": "generated_c_alone",
    "end_to_end/test_routines.py": "one_program or outside",
}


def check(sanitizers: str, file: str, chosen: str, folder: pathlib.Path, **more: str) -> None:
    """Run the chosen tests of *file*; fails where one fails, or where a sanitizer reports something."""
    command = [
        "-m",
        "pytest",
        "-q",
        "-n",
        "auto",
        "-m",
        "not slow or slow",
        "-p",
        "no:cacheprovider",
        *(["-k", chosen] if chosen else []),
        str(TESTS / file),
    ]
    done = run_under(sanitizers, folder, command, dict(more))
    assert (done.returncode, done.reports) == (0, ""), done.everything


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("file", ADDRESSES)
def test_generated_code_reads_and_writes_only_its_buffers_and_has_no_undefined_behaviour(file, tmp_path):
    check("address,undefined", file, ADDRESSES[file], tmp_path)


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("file", RACES)
def test_the_threads_of_a_team_do_not_race(file, tmp_path):
    check("thread", file, RACES[file], tmp_path, BYOC_TEST_THREADS="3")


@pytest.mark.needs_cc
@pytest.mark.slow
def test_some_models_overstep_no_buffer(tmp_path):
    script = tmp_path / "some.py"
    script.write_text(SOME.format(folders=[str(TESTS.parent), str(TESTS / "end_to_end")]))
    done = run_under("address,undefined", tmp_path, [str(script)])
    assert (done.returncode, done.reports) == (0, ""), done.everything


SOME = """
import sys
sys.path[:0] = {folders!r}
import numpy as np
import byoc
from fuzz.generators.draft import random_model
from fuzz.generators.moves import PROPOSALS
from recurrent_layers import Layer

for seed in (3, 11, 2026):
    model = random_model(seed, PROPOSALS)
    library = byoc.compile(model.proto, ["c"])
    for feeds, wanted in zip(model.feeds, model.wanted):
        for got, want in zip(library.run(feeds), wanted):
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3 * max(1e-3, np.abs(want).max(initial=0)))
layer = Layer("LSTM", 5, 1, 3, "constant", "input", attrs=dict(direction="bidirectional"))
for got, want in zip(byoc.compile(layer.model(), ["c"]).run(layer.feeds()), layer.expected()):
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
"""
