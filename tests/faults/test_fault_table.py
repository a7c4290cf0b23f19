"""The table of faults (``docs/faults.md``) and the tests that inject them name each other."""

import ast
import pathlib
import re

from injection import ROOT

TABLE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
HERE = pathlib.Path(__file__)


def rows():
    """The cells of each row that describes a fault."""
    lines = [
        line for line in TABLE.splitlines() if line.startswith("|") and not line.startswith(("|---", "| what fails"))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def injecting():
    """The tests of this folder, but for those of this file."""
    names = []
    for file in sorted(HERE.parent.glob("test_*.py")):
        if file != HERE:
            tree = ast.parse(file.read_text(encoding="utf-8"))
            names += [f.name for f in tree.body if isinstance(f, ast.FunctionDef) and f.name.startswith("test_")]
    return names


def test_every_row_says_what_fails_how_what_is_seen_and_by_which_tests():
    assert len(rows()) > 40
    assert [row for row in rows() if len(row) != 4 or not all(row) or not re.findall(r"`(test_\w+)`", row[3])] == []


def test_every_test_that_the_table_names_exists_and_every_test_is_named():
    named = {name for row in rows() for name in re.findall(r"`(test_\w+)`", row[3])}
    assert named == set(injecting())
    assert len(injecting()) == len(set(injecting()))
