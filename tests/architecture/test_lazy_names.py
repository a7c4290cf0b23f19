"""Packages that load their names when they are used: the stub for type checkers says the same as the table."""

import ast
import importlib
import inspect
import pathlib
import pkgutil

import pytest

from tools.health.sources import modules

PACKAGES = [name for name, path in modules().items() if path.with_suffix(".pyi").is_file()]


def stubbed(package):
    """Name to the thing that the package's stub imports under it, as ``from module import name`` finds it."""
    path = pathlib.Path(importlib.import_module(package).__file__).with_suffix(".pyi")
    found = {}
    for node in ast.parse(path.read_text()).body:
        if not isinstance(node, ast.ImportFrom):
            continue
        names = {alias.name: alias for alias in node.names}
        if "*" in names:
            inner = stubbed(node.module)
            own = {info.name for info in pkgutil.iter_modules(importlib.import_module(node.module).__path__)}
            found |= {name: thing for name, thing in inner.items() if not (inspect.ismodule(thing) and name in own)}
            continue
        assert all(alias.asname == name for name, alias in names.items()), f"{path}:{node.lineno} does not re-export"
        scope = {}
        exec(f"from {node.module} import {', '.join(names)}", scope)
        found |= {name: scope[name] for name in names}
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_names_what_the_package_has(package):
    module, names = importlib.import_module(package), stubbed(package)
    assert sorted(names) == sorted(name for name in module.__all__ if name != "__version__")
    for name, thing in names.items():
        assert getattr(module, name) is thing
        assert name in dir(module)


@pytest.mark.parametrize("package", PACKAGES)
def test_an_unknown_name_is_said(package):
    missing = "nothing_such"
    with pytest.raises(AttributeError, match=f"{package} has no name '{missing}'"):
        getattr(importlib.import_module(package), missing)
