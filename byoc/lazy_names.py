"""Packages whose names are loaded when they are first used, so that a model's road imports no more than it walks on.

Beside such a package's ``__init__.py`` stands an ``__init__.pyi`` with plain imports, for editors and type checkers
(PEP 484, PEP 562). ``tests/architecture/test_lazy_names.py`` holds the two to each other.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping


def lazy_names(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of *package*: each name of *homes* comes from the module that stands beside it.

    A module is named in full, or below *package* with a leading dot. What was loaded is kept in the package. Any other
    name is an AttributeError that says so.
    """
    module = sys.modules[package]

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"{package} has no name {name!r}")
        found = getattr(importlib.import_module(homes[name], package), name)
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(module), *homes})

    return load, names
