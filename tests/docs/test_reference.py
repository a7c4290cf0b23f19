"""The reference has a page for each package that users import by name, with every public name of it."""

import importlib
import pathlib
import re

import pytest

REFERENCE = pathlib.Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("package, page", [("byoc.kernels", "kernels.md")])
def test_every_public_name_stands_on_the_page_of_its_package(package, page):
    text = (REFERENCE / page).read_text()
    shown = re.findall(rf"^\.\. auto\w+:: {re.escape(package)}\.(\w+)$", text, re.MULTILINE)
    assert sorted(shown) == sorted(importlib.import_module(package).__all__)
    assert pathlib.Path(page).stem in (REFERENCE / "index.md").read_text().splitlines()
