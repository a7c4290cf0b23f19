"""What an operator is stands on the operator: hand-kept lists of operators' names may only become fewer."""

import ast
from pathlib import Path

import pytest

from tools.health.operator_names import Names, OperatorList, operator_lists, unknown_names

MOST_LISTS = 0  # was 72; write the new number here when there are fewer


@pytest.fixture(scope="module")
def names() -> Names:
    return Names.registered()


def test_no_list_of_operators_is_added(names: Names) -> None:
    lists = [one for one in operator_lists(names) if not one.is_table]
    assert len(lists) <= MOST_LISTS, "declare what the operators have in common as a trait:\n" + "\n".join(
        map(str, lists)
    )
    assert len(lists) == MOST_LISTS, f"there are {len(lists)} lists now: lower MOST_LISTS"


def test_every_literal_that_looks_like_an_operator_is_one(names: Names) -> None:
    assert [str(one) for one in unknown_names(names)] == []


def scanned(tmp_path: Path, text: str) -> list[OperatorList]:
    (tmp_path / "byoc").mkdir()
    (tmp_path / "byoc" / "scanned.py").write_text(text)
    ast.parse(text)
    return operator_lists(Names(frozenset(["add", "subtract", "nn.conv1d", "nn.conv2d"]), frozenset()), tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        'SUMS = {"add", "subtract"}',
        'SUMS = frozenset(["add", "subtract", "else"])',
        'SUMS = "add subtract".split()',
        'is_sum = name in ("add", "subtract")',
        'RULES = {"add": rule, "subtract": rule}',
        'RULES = {**dict.fromkeys(("add", "subtract"), rule)}',
        'is_sum = calls(expr, "add", "subtract")',
        'CONVOLUTIONS = [f"nn.conv{n}d" for n in (1, 2)]',
        'match name:\n    case "add" | "subtract":\n        pass',
    ],
)
def test_the_scanner_finds_a_list(tmp_path: Path, text: str) -> None:
    (found,) = scanned(tmp_path, text)
    assert len(found.names) == 2 and not found.is_table and found.file == "byoc/scanned.py"


def test_a_table_has_a_rule_of_its_own_for_each(tmp_path: Path) -> None:
    (found,) = scanned(tmp_path, 'RULES = {"add": one_rule, "subtract": another}')
    assert found.is_table


@pytest.mark.parametrize(
    "text", ['NAME = "add"', 'A, B = "add", "subtract"', 'x = ("add", "else")', 'n = f"nn.{name}"']
)
def test_the_scanner_lets_single_names_be(tmp_path: Path, text: str) -> None:
    assert scanned(tmp_path, text) == []


def test_the_scanner_finds_a_name_that_nobody_has(tmp_path: Path) -> None:
    (tmp_path / "codegen").mkdir()
    (tmp_path / "codegen" / "scanned.py").write_text('A = ["nn.convv2d", "nn.conv2d", "qnn.Legalize", "nn.conv"]')
    names = Names(frozenset(["nn.conv2d"]), frozenset())
    assert [one.name for one in unknown_names(names, tmp_path)] == ["nn.convv2d", "nn.conv"]
