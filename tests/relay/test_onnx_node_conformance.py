"""ONNX's own suite, all of it, through ``byoc.onnx_backend``: what is imported must compute what the standard says.

The record is the section of the page ``docs/support/onnx.md`` for the interpreter: how many cases of each operator
pass, what is refused and why. To renew it: ``python -m byoc.onnx_backend.conformance --device NUMPY --page
docs/support/onnx.md``.
"""

from pathlib import Path

import onnx
import pytest

from byoc.onnx_backend.backend import ByocBackend
from byoc.onnx_backend.cases import suite
from byoc.onnx_backend.page import section, sections_of
from byoc.onnx_backend.survey import survey

PAGE = Path(__file__).parents[2] / "docs" / "support" / "onnx.md"
FEWEST = 0.98  # of all cases pass
GENERATED = 0.95  # of those whose operators are generated have nothing on numpy kernels, and on the device
# operators of control flow, and of values that are no tensors, of which a few cases each are quickly compiled
HOLDERS = {
    *("If", "Loop", "Scan", "OptionalGetElement", "OptionalHasElement"),
    *("SequenceInsert", "SequenceMap", "SplitToSequence"),
}


def held_to_the_page(device: str) -> None:
    found = survey(suite(), device)
    counts = found.counts()
    assert [(o.case, o.reason) for o in found.outcomes if o.kind == "wrong"] == []
    assert counts["passed"] + counts["as constants"] >= FEWEST * len(found.outcomes) > 0
    if device != "NUMPY":
        bar = found.bar()
        assert bar.kernels >= GENERATED * bar.cases > 0
        assert device != "OPENCL" or bar.device >= GENERATED * bar.cases
    recorded = sections_of(PAGE.read_text(encoding="utf-8"))[device]
    if f" of onnx {onnx.__version__} " not in recorded:
        pytest.skip(f"the page is of another version than onnx {onnx.__version__}: counts not compared")
    assert section(found) == recorded


def test_every_case_of_onnx_that_is_imported_gives_the_standards_numbers() -> None:
    held_to_the_page("NUMPY")


@pytest.mark.needs_cc
def test_what_is_imported_with_control_flow_or_sequences_compiles_too() -> None:
    cases = [c for c in suite() if c.operator in HOLDERS]
    interpreted, compiled = (survey(cases, device).outcomes for device in ("NUMPY", "CPU"))
    assert len(cases) > 30
    assert [(o.case, o.kind, o.reason) for o in compiled] == [(o.case, o.kind, o.reason) for o in interpreted]


@pytest.mark.slow
@pytest.mark.needs_cc
def test_the_page_has_the_counts_of_generated_c() -> None:
    held_to_the_page("CPU")


@pytest.mark.slow
@pytest.mark.needs_opencl
def test_the_page_has_the_counts_of_opencl() -> None:
    if not ByocBackend.supports_device("OPENCL"):
        pytest.skip("no OpenCL device")
    held_to_the_page("OPENCL")
