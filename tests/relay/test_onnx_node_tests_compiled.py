"""ONNX's own suite as generated C: the host's whole program of each model that byoc takes.

``tests/codegen/test_c_sanitizers.py`` runs this file under the address and the undefined-behaviour sanitizer too.
"""

import os

import pytest

from byoc.onnx_backend.cases import SuiteCase, suite
from byoc.onnx_backend.survey import survey

PARTS = 32


@pytest.fixture(scope="module")
def cases() -> list[SuiteCase]:
    return list(suite())


@pytest.mark.slow
@pytest.mark.needs_cc
@pytest.mark.parametrize("part", range(PARTS))
def test_node_tests_compiled_give_the_standards_numbers(part: int, cases: list[SuiteCase]) -> None:
    chosen = cases[part::PARTS][:: int(os.environ.get("BYOC_TEST_EVERY", "1"))]  # or 1 in so many
    found = survey(chosen, "CPU")
    assert [(o.case, o.reason) for o in found.outcomes if o.kind == "wrong"] == []
    assert found.counts()["passed"] > 0
