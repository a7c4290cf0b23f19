"""The page about the pipeline: its examples give what it says, and it names every method and form."""

import doctest
import pathlib

from byoc.driver.pass_list import Pipeline
from byoc.ir.passes.pass_info import FORMS

PAGE = pathlib.Path(__file__).parents[2] / "docs/pipeline.md"


def test_the_examples_of_the_page_give_what_it_says():
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.failed == 0 and result.attempted > 12


def test_the_page_names_every_method_and_form():
    text = PAGE.read_text()
    methods = [name for name in vars(Pipeline) if not name.startswith("_")]
    inner = {"steps", "passes"}  # of the driver
    assert [name for name in {*methods, *FORMS} - inner if f"`{name}" not in text] == []
