"""Packages whose names are loaded when they are first used, so that compiling a model imports no more than it needs.

Beside such a package's ``__init__.py`` stands an ``__init__.pyi``, which is the one list of its names: type checkers
and editors read it as it is (PEP 484), and so does :func:`lazy_names` (PEP 562). A line is ``from module import name as
name``; ``from package import *`` takes what that package's own stub names, its own modules aside.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType

from byoc.base.module_aliases import MOVED, home_of


@functools.cache
def homes(package: str) -> dict[str, tuple[str, str]]:
    """Each name of *package*, by its stub: the module that has it, and its name there; only parents are imported."""
    spec = importlib.util.find_spec(package)
    assert spec is not None and spec.origin is not None, package
    text = Path(spec.origin).with_suffix(".pyi").read_text(encoding="utf-8")
    found: dict[str, tuple[str, str]] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                if alias.name == "*":  # but not that package's own modules
                    found.update({n: home for n, home in homes(node.module).items() if home[0] != node.module})
                else:
                    found[alias.asname or alias.name] = (node.module, alias.name)
    return found


def lazy_names(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """``__getattr__``, ``__dir__`` and ``__all__`` of *package*, whose names its stub lists.

    What was loaded is kept in the package; modules inside are attributes as if they were imported. Any other name is an
    AttributeError that says so.
    """
    module, table = sys.modules[package], homes(package)
    own = modules_in(module.__path__)

    def load(name: str) -> object:
        if name not in table and name in own:
            return importlib.import_module(f"{package}.{name}")
        if name not in table:
            import difflib  # for a mistake alone

            near = difflib.get_close_matches(name, table, n=3)
            hint = f"; the nearest: {', '.join(near)}" if near else ""
            raise AttributeError(f"{package} has no name {name!r}{hint}")
        found = _named(*table[name], package)
        setattr(module, name, found)
        return found

    def names() -> list[str]:
        return sorted({*vars(module), *table})

    moved = {known.rpartition(".")[2] for known in MOVED if known.rpartition(".")[0] == package}
    if any(table.get(name, (package, name)) != (package, name) for name in own | moved):
        module.__class__ = _NamesBeforeModules
    return load, names, sorted(table)


def modules_in(folders: Iterable[str]) -> set[str]:
    """The names of the modules and packages in *folders*; ``pkgutil`` would import ``inspect``."""
    entries = [entry for folder in folders for entry in Path(folder).iterdir()]
    packages = {e.name for e in entries if (e / "__init__.py").is_file()}
    return packages | {e.stem for e in entries if e.suffix == ".py" and e.stem != "__init__"}


class _NamesBeforeModules(ModuleType):
    """A package of which a name is also that of a module inside, which does not take its place when it is imported.

    A module that moved elsewhere and is imported under its former name (``module_aliases.py``) counts as inside.
    """

    def __setattr__(self, name: str, value: object) -> None:
        key = f"{self.__name__}.{name}"
        inside = isinstance(value, ModuleType) and value.__name__ in (key, home_of(key))
        wanted = ".".join(homes(self.__name__).get(name, (self.__name__, name)))
        if not inside or wanted in (key, home_of(key)):
            super().__setattr__(name, value)


def _named(home: str, name: str, package: str) -> object:
    """What ``from home import name`` in *package* gives: an attribute of the module, else a module below it."""
    if home != package:
        module = importlib.import_module(home)
        if hasattr(module, name):
            return getattr(module, name)
    return importlib.import_module(f"{home}.{name}")
