"""Passes, text to text: ``texts/*.relay`` (see ``pass_texts``). ``--update-golden`` writes what is expected anew."""

import pathlib

import numpy as np
import pytest
from pass_texts import numbers, random_inputs, rewritten, text_of, texts

from byoc import relay
from byoc.relay.verify.verifier import verify

FOLDER = pathlib.Path(__file__).parent / "texts"
CASES = texts(FOLDER)
FEWEST_FILES = 40


@pytest.mark.parametrize(("path", "case"), CASES, ids=[f"{path.stem}: {case.name}" for path, case in CASES])
def test_a_pass_gives_what_its_text_says(path, case, request):
    given = case.given()
    made = case.made(given)
    assert verify(given).problem is None and verify(made).problem is None
    text = text_of(made)
    if request.config.getoption("--update-golden"):
        rewritten(path, case.name, text)
    else:
        assert text == case.expected
    inputs = random_inputs(given)
    if case.no_numbers or inputs is None:
        return
    for before, after in zip(numbers(given, inputs), numbers(made, inputs), strict=True):
        assert before.dtype == after.dtype and before.shape == after.shape
        np.testing.assert_allclose(after, before, rtol=1e-4, atol=1e-5)


def test_the_text_of_a_module_is_read_back(request):
    """What a case expects could stand as the input of another, unless it has constants, whose values are not shown."""
    if request.config.getoption("--update-golden"):
        pytest.skip("the cases were read before they were written anew")
    for _, case in CASES:
        if case.expected and "meta[" not in case.expected and "Any" not in case.expected:
            mod = relay.parse('#[version = "0.0.5"]\n' + case.expected)
            assert text_of(mod) == case.expected, case.name


def test_no_two_cases_of_a_file_have_one_name_and_none_is_empty():
    assert len({path for path, _ in CASES}) >= FEWEST_FILES
    named = [(path, case.name) for path, case in CASES]
    assert len(set(named)) == len(named)


def test_a_file_without_its_pass_is_one_sentence(tmp_path):
    (tmp_path / "abs.relay").write_text("// passes: Inline()\n\n// case: one\ndef @main() { 1 }\n")
    with pytest.raises(ValueError, match="abs.relay: begins with `// pass: "):
        texts(tmp_path)
