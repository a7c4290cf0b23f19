"""Stubs of facades are completed by what modules define: passes, and builders of operators."""

import sys
from types import ModuleType

import pytest

from byoc.relay.transform import FuseOps, InlineCalls
from byoc.relay.transform.fuse.fuse_ops import FuseHostOps
from tools.health.facades import completed, formatted, passes_made

STUB = '"""The names."""\n\nfrom colours import red as red\nfrom colours.dark import (\n    brown as brown,\n)\n'


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, has in (("colours", ["red", "blue"]), ("colours.dark", ["grey"])):
        module = ModuleType(name)
        vars(module).update(dict.fromkeys(has, 1))
        monkeypatch.setitem(sys.modules, name, module)


def test_a_name_that_is_found_is_added_and_one_that_is_gone_goes() -> None:
    text = completed(STUB, [("colours", "red"), ("colours.dark", "grey"), ("colours", "blue")])
    assert formatted(text, "byoc/relay/transform/__init__.pyi") == (
        '"""The names."""\n\nfrom colours import blue as blue\nfrom colours import red as red\n'
        "from colours.dark import grey as grey\n"
    )


def test_a_line_of_a_module_that_was_not_imported_stays() -> None:
    text = "from elsewhere.colours import pink as pink\n"
    assert completed(text, []) == text


def test_a_long_line_is_broken_as_the_formatter_has_it() -> None:
    name = "a_name_that_is_much_too_long_to_stand_twice_in_one_line"
    assert formatted(f"from colours import {name} as {name}\n", "byoc/relay/op/__init__.pyi") == (
        f"from colours import (\n    {name} as {name},\n)\n"
    )


def test_a_pass_is_a_function_that_gives_its_own_name_to_what_it_returns() -> None:
    names = [name for _, name in passes_made()]
    assert FuseOps.__name__ in names and InlineCalls.__name__ in names
    assert FuseHostOps.__name__ not in names  # a FuseOps
