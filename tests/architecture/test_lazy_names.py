"""Packages that load their names when they are used: the stub for type checkers says the same as the table."""

import ast
import importlib
import pathlib

import pytest

PACKAGES = ("byoc.relay.analysis", "byoc.relay.transform", "byoc.partition")


def stubbed(package):
    """Name to module, as the package's stub imports them."""
    path = pathlib.Path(importlib.import_module(package).__file__).with_suffix(".pyi")
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            assert all(alias.asname == alias.name for alias in node.names), f"{path}:{node.lineno} does not re-export"
            found |= {alias.name: node.module for alias in node.names}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_names_what_the_package_has(package):
    module, names = importlib.import_module(package), stubbed(package)
    assert sorted(names) == sorted(module.__all__)
    for name, home in names.items():
        assert getattr(module, name) is getattr(importlib.import_module(home), name)
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_said(package):
    missing = "nothing_such"
    with pytest.raises(AttributeError, match=f"{package} has no name '{missing}'"):
        getattr(importlib.import_module(package), missing)
