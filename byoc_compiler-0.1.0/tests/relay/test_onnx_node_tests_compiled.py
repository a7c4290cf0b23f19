"""ONNX's own node tests as generated C: the host's whole program of each model that the importer takes.

``tests/codegen/test_c_sanitizers.py`` runs this file under the address and the undefined-behaviour sanitizer too.
"""

import os

import numpy as np
import pytest
from test_onnx_node_conformance import TOLERATED, difference, is_tensors, load_cases

import byoc
from byoc.errors import UserError

PARTS = 32
# the standard's numbers are rounded to bfloat16 after each operator (scores, probabilities, sums), those of a fused
# group once, at its end: they may lie two steps apart
BF16_STEPS = 2


@pytest.fixture(scope="module")
def cases() -> list:
    return load_cases()


def by_generated_code(mod: object, given: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [np.asarray(a) for a in byoc.compile(mod).run(given)]


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_compiled_give_the_standards_numbers(part: int, cases: list) -> None:
    wrong: dict[str, str] = {}
    computed = 0
    for case in cases[part::PARTS][:: int(os.environ.get("BYOC_TEST_EVERY", "1"))]:  # or 1 in so many
        if not is_tensors([*case.data_sets[0][0], *case.data_sets[0][1]]) or case.name in TOLERATED:
            continue
        try:
            found = difference(case, by_generated_code, BF16_STEPS)
        except UserError:
            continue  # refused in a sentence; test_onnx_node_conformance.py counts these
        computed += 1
        if found:
            wrong[case.name] = found
    assert wrong == {}
    assert computed > 0
