"""``byoc.compat.tvm``: code written for TVM's Relay runs on byoc, under the names that it imports.

:func:`install` makes ``import tvm`` and its sub-modules resolve to our own module objects; :func:`uninstall` takes it
away without a trace; :func:`mount` puts a folder of a vendor's modules under ``tvm.relay.op.contrib``, and
:func:`emulate` lets the environment of a vendor's library answer. From a shell:
``python -m byoc.compat.tvm script.py`` and ``python -m byoc.compat.tvm -m pytest``.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from byoc.compat.tvm.below import BelowModule, Missing, NotHereError
from byoc.compat.tvm.emulation import Emulation, emulation
from byoc.compat.tvm.finder import ReverseFinder, TvmFinder
from byoc.compat.tvm.homes import ADDED_FUNCTIONS, ADDED_NAMES, ALIASES, OURS_FIRST, SHADOWED
from byoc.contract.importing import imported_first, no_longer_imported
from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func

CONTRIB = "tvm.relay.op.contrib"
INSTALLED, MOUNTS_VARIABLE = f"{__name__}.installed", "BYOC_TVM_MOUNTS"  # for processes that this one starts
NEEDS_PYTEST = ("tvm.testing.plugin",)


@dataclass
class _State:
    finder: TvmFinder | None = None
    reverse: ReverseFinder | None = None
    mounts: dict[str, list[str]] = field(default_factory=dict)
    added: list[tuple[types.ModuleType, str]] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)
    hidden: list[tuple[types.ModuleType, str, types.ModuleType]] = field(default_factory=list)
    emulations: list[Emulation] = field(default_factory=list)


_STATE = _State()


def install() -> None:
    """Make ``import tvm`` resolve to byoc; again does nothing. Raises UserError where TVM itself is imported."""
    if _STATE.finder is not None:
        return
    if "tvm" in sys.modules:
        raise UserError("a module called tvm is imported already: call byoc.compat.tvm.install() before importing it")
    _STATE.finder, _STATE.reverse = TvmFinder(_STATE.mounts), ReverseFinder()
    sys.meta_path.insert(0, _STATE.finder)
    sys.meta_path.append(_STATE.reverse)
    for module_name, names in ADDED_NAMES.items():
        module = importlib.import_module(module_name)
        for name, place in names.items():
            if not hasattr(module, name):
                _add(module, name, place)
    for name, home in ALIASES.items():
        parent, _, child = name.rpartition(".")
        if parent not in ("", CONTRIB) and name not in NEEDS_PYTEST:  # a mounted folder may bring what CONTRIB has
            holder = importlib.import_module(parent)
            if not isinstance(holder, BelowModule) and not hasattr(holder, child):
                _add(holder, child, f"{home}:")
    for name, home in SHADOWED.items():
        sys.modules[name] = importlib.import_module(home)
    for name, place in ADDED_FUNCTIONS.items():
        if name not in GLOBAL_FUNCTIONS:
            register_func(name, _loaded_when_called(place))
            _STATE.functions.append(name)
    imported_first(INSTALLED)


def _loaded_when_called(place: str) -> Callable[..., object]:
    source, _, attribute = place.partition(":")
    return lambda *args: getattr(importlib.import_module(source), attribute)(*args)


def _add(module: types.ModuleType, name: str, place: str) -> None:
    source, _, attribute = place.partition(":")
    value: object = importlib.import_module(source)
    if name in vars(module):
        return  # that import has brought it
    setattr(module, name, getattr(value, attribute) if attribute else value)
    _STATE.added.append((module, name))


def uninstall() -> None:
    """Take away what :func:`install`, :func:`mount` and imports under TVM's names have put anywhere."""
    if _STATE.finder is None or _STATE.reverse is None:
        return
    for emulated in _STATE.emulations:
        emulated.undo()
    _STATE.emulations.clear()
    sys.meta_path.remove(_STATE.finder)
    sys.meta_path.remove(_STATE.reverse)
    foreign = [name for name, module in sys.modules.items() if _is_foreign(name, module)]
    for name in sorted(foreign, key=len, reverse=True):
        module = sys.modules.pop(name)
        if module.__spec__ is not None and module.__spec__.submodule_search_locations is None:
            vars(module).pop("__path__", None)  # the import system gave it one, as the parent of aliases
        parent, _, child = name.rpartition(".")
        holder = sys.modules.get(parent)
        if holder is not None and module.__name__ != f"{holder.__name__}.{child}":
            _forget(holder, child, module)
    for module, name in _STATE.added:
        if name in vars(module):
            delattr(module, name)
    for name in _STATE.functions:
        if name in GLOBAL_FUNCTIONS:
            GLOBAL_FUNCTIONS.unregister(name)
    for holder, child, module in _STATE.hidden:
        if module.__name__ == f"{holder.__name__}.{child}":
            setattr(holder, child, module)
    _STATE.hidden.clear()
    _STATE.functions.clear()
    _STATE.added.clear()
    _STATE.mounts.clear()
    _STATE.finder = _STATE.reverse = None
    no_longer_imported(INSTALLED)
    os.environ.pop(MOUNTS_VARIABLE, None)


def _is_foreign(name: str, module: types.ModuleType) -> bool:
    """True for TVM's names, and for names of ours that stand for a module of another name."""
    return name == "tvm" or name.startswith("tvm.") or (name.startswith("byoc.") and module.__name__ != name)


def _forget(holder: types.ModuleType, child: str, module: types.ModuleType) -> None:
    if vars(holder).get(child) is module:
        delattr(holder, child)


def is_installed() -> bool:
    """Whether ``import tvm`` resolves to byoc now."""
    return _STATE.finder is not None


def mount(folder: str | os.PathLike[str], package: str = CONTRIB) -> None:
    """Let the modules in *folder* be imported as ``tvm.relay.op.contrib.<name>``; installs first where that is missing.

    They are loaded under that name, so that their relative imports (``from ...dataflow_pattern import is_op``) work.
    Raises UserError where *folder* is not a folder.
    """
    path = Path(folder).resolve()
    if not path.is_dir():
        raise UserError(f"{folder} is not a folder: give the one that holds the vendor's modules")
    install()
    places = _STATE.mounts.setdefault(package, [])
    if str(path) not in places:
        places.append(str(path))
        if package == CONTRIB:
            os.environ[MOUNTS_VARIABLE] = os.pathsep.join(places)
        importlib.invalidate_caches()
        _forget_replaced(package, path)


def emulate(name: str) -> Emulation:
    """Let the environment of the library *name* (``tensorrt``) answer, by byoc's engines; installs first.

    It answers until its ``undo()``, the end of a ``with`` block, or :func:`uninstall`; again gives the same emulation.
    Raises UserError for a library that byoc does not emulate, and where the library itself has registered a function.
    """
    install()
    answering = next((made for made in _STATE.emulations if made.name == name and made.answers), None)
    if answering is None:
        answering = emulation(name)
        _STATE.emulations.append(answering)
    return answering


def _forget_replaced(package: str, folder: Path) -> None:
    """Forget under TVM's names the modules, imported before, for which *folder* has one of its own."""
    holder = importlib.import_module(package)
    for child in sorted({entry.stem for entry in folder.iterdir() if entry.suffix == ".py" or entry.is_dir()}):
        name = f"{package}.{child}"
        if name not in OURS_FIRST:
            if name in sys.modules and sys.modules[name].__name__ != name:  # an alias of ours
                del sys.modules[name]
            if child in vars(holder) and vars(holder)[child].__name__ != name:
                _STATE.hidden.append((holder, child, vars(holder)[child]))
                delattr(holder, child)


__all__ = [
    "BelowModule",
    "Emulation",
    "Missing",
    "NotHereError",
    "emulate",
    "install",
    "is_installed",
    "mount",
    "uninstall",
]
