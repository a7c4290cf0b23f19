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
    lists = [one for one in operator_lists(names) if one.is_list]
    assert len(lists) <= MOST_LISTS, "declare what the operators have in common as a trait:\n" + "\n".join(
        map(str, lists)
    )
    assert len(lists) == MOST_LISTS, f"there are {len(lists)} lists now: lower MOST_LISTS"


def test_every_literal_that_looks_like_an_operator_is_one(names: Names) -> None:
    assert [str(one) for one in unknown_names(names)] == []


OPERATORS = frozenset(["add", "subtract", "nn.conv1d", "nn.conv2d", "squeeze", "reshape"])


def scanned(tmp_path: Path, text: str, room: str = "byoc") -> list[OperatorList]:
    (tmp_path / room).mkdir(parents=True)
    (tmp_path / room / "scanned.py").write_text(text)
    ast.parse(text)
    return operator_lists(Names(OPERATORS, frozenset(), frozenset(["squeeze", "reshape"])), tmp_path)


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
        'PLACES = {"add": 1, "subtract": 2}',
        'HEAVY = (("sum", "add"), ("difference", "subtract"))',
        'SUM = "add"\nSUMS = {SUM, "subtract"}',
        'SUMS = f(f"nn.{name}" for n in (1, 2) for name in (f"conv{n}d",))',
        'is_sum = name == "add" or name == "subtract"',
        'is_none = name != "add" and name != "subtract"',
        'is_sum = calls(expr, "add") or calls(expr, "subtract")',
        'sums = is_op("add")(x, y) | is_op("subtract")(x, y)',
        'SUMS = "add subtract add subtract"',
    ],
)
@pytest.mark.parametrize("room", ["byoc", "codegen"])
def test_the_scanner_finds_a_list(tmp_path: Path, text: str, room: str) -> None:
    (found,) = scanned(tmp_path, text, room)
    assert len(found.names) == 2 and found.is_list and found.file == f"{room}/scanned.py"


@pytest.mark.parametrize("room", ["contrib", "runtime/kernels", "byoc/relay/frontend", "byoc/relay/qnn/fake"])
@pytest.mark.parametrize(
    "text",
    [
        'SUMS = frozenset(["add", "subtract"])',
        'is_sum = name in ("add", "subtract")',
        'PLACES = {"add": 2, "subtract": 2}',
        'is_sum = name == "add" or name == "subtract"',
        'sums = is_op("add")(x, y) | is_op("subtract")(x, y)',
        'SUMS = ("add", "subtract")\n@kernel(*SUMS)\ndef f(): ...\nis_sum = name in SUMS',
        'SUMS = ("add", "subtract")',
        '@kernel("squeeze", "reshape")\ndef f(): ...',
        'for name in ("add", "subtract"):\n    found = calls.get(name)',
    ],
)
def test_rooms_with_code_for_operators_have_no_lists_either(tmp_path: Path, text: str, room: str) -> None:
    assert any(one.is_list for one in scanned(tmp_path, text, room))


@pytest.mark.parametrize(
    "text",
    [
        '@kernel("add", "subtract")\ndef f(): ...',
        '@constraint("dtype", of=("add", "subtract"))\ndef f(): ...',
        'SUMS = ("add", "subtract")\n@kernel(*SUMS, "other")\ndef f(): ...',
        'RULES = {"add": rule, "subtract": rule}',
        'ALGORITHMS = {"add": "eltwise", "subtract": "eltwise"}',
        'for name in ("add", "subtract"):\n    register_op_attr(name, "target.x", True)',
        'kernel("add", "subtract")(function)',
        'takes = Quantized(operators=("add", "subtract"))',
    ],
)
def test_a_binding_says_which_operators_a_function_is_for(tmp_path: Path, text: str) -> None:
    assert {one.kind for one in scanned(tmp_path, text, "contrib")} == {"binding"}
    assert any(one.is_list for one in scanned(tmp_path / "elsewhere", text))


def test_a_table_beside_the_operators_files_is_a_list(tmp_path: Path) -> None:
    table = 'LEVELS = {1: "add subtract nn.conv1d nn.conv2d"}'
    (found,) = scanned(tmp_path, table, "byoc/relay/op")
    assert found.is_list
    assert scanned(tmp_path / "own", f"{table}\nregister_op('add')", "byoc/relay/op") == []


def test_a_constant_that_another_module_reads_is_a_list(tmp_path: Path) -> None:
    (tmp_path / "contrib").mkdir()
    (tmp_path / "contrib" / "reader.py").write_text("from byoc.contrib.scanned import SUMS\n")
    (tmp_path / "contrib" / "scanned.py").write_text('SUMS = ("add", "subtract")\n@kernel(*SUMS)\ndef f(): ...')
    names = Names(OPERATORS, frozenset())
    assert [one.kind for one in operator_lists(names, tmp_path)] == ["list", "binding"]


def test_a_table_has_a_rule_of_its_own_for_each(tmp_path: Path) -> None:
    (found,) = scanned(tmp_path, 'RULES = {"add": one_rule, "subtract": another}')
    assert found.kind == "table"
    (found,) = scanned(tmp_path / "rows", 'ROWS = (("sum", "add"), ("difference", "subtract"))', "contrib")
    assert found.kind == "table"


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
