"""The import finder: TVM's module names resolve to our module objects, each of which is loaded once.

``import tvm.relay.transform`` puts ``byoc.relay.transform`` itself under that name into ``sys.modules``, so that no
class exists twice. Invariant: a name that this finder gives is either a module of ours, a vendor's file from a mounted
folder (loaded once, under TVM's name), or a :class:`BelowModule`. Source: PEP 302, PEP 451.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

from byoc.base.module_aliases import AliasLoader
from byoc.base.module_aliases import home_of as moved_to
from byoc.compat.tvm.below import BelowModule
from byoc.compat.tvm.homes import ALIASES, BELOW, OURS_FIRST, ROOTS, THIN

APART = ("byoc.codegen", "byoc.contrib", "byoc.runtime")  # in a checkout these are not below the folder of byoc


def exists(name: str) -> bool:
    """Whether the module *name* of ours is a file or a package, found without importing it."""
    if name in sys.modules:
        return sys.modules[name].__name__ == name
    if name in APART:
        return True
    parent, _, _ = name.rpartition(".")
    if parent and not exists(parent):
        return False
    path = importlib.import_module(parent).__path__ if parent and _is_package(parent) else None
    if parent and path is None:
        return False
    return importlib.machinery.PathFinder.find_spec(name, path) is not None


def _is_package(name: str) -> bool:
    return hasattr(importlib.import_module(name), "__path__")


def home_of(name: str) -> str | None:
    """The module of ours that stands for TVM's *name*, or None where there is none."""
    if name in ALIASES:
        return ALIASES[name]
    for root, ours in ROOTS.items():
        if name == root or name.startswith(root + "."):
            candidate = moved_to(ours + name[len(root) :])
            if exists(candidate):
                return candidate
    candidate = THIN + name[len("tvm") :]
    return candidate if exists(candidate) else None


class BelowLoader(Loader):
    """Makes the modules of what is not here."""

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return BelowModule(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        """There is nothing to run."""


class TvmFinder(MetaPathFinder):
    """Finds ``tvm`` and everything under it; *mounts* are folders of a vendor's own modules, by TVM's package."""

    def __init__(self, mounts: Mapping[str, list[str]]):
        self.mounts = mounts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        mounted = self._mounted(fullname)
        if mounted is not None:
            return mounted if mounted.name == fullname else ModuleSpec(fullname, AliasLoader(mounted.name))
        if fullname != "tvm" and not fullname.startswith("tvm."):
            return None
        home = home_of(fullname)
        if home is not None:
            return ModuleSpec(fullname, AliasLoader(home), is_package=True)
        parent = fullname.rpartition(".")[0]
        vendor = sys.modules.get(parent)
        if vendor is not None and vendor.__name__ == parent and not isinstance(vendor, BelowModule):
            return None  # a vendor's own package, which Python's finder looks into
        if any(fullname == name or fullname.startswith(name + ".") for name in BELOW):
            return ModuleSpec(fullname, BelowLoader(), is_package=True)
        raise ModuleNotFoundError(f"byoc has no module for {fullname}", name=fullname)

    def _mounted(self, fullname: str) -> ModuleSpec | None:
        """The vendor's own module that *fullname*, a name of TVM or of our home of it, stands for; None without one.

        A vendor's file is before a module of ours of the same name, so that it can be replaced.
        """
        parent, _, child = fullname.rpartition(".")
        for package, places in self.mounts.items():
            name = f"{package}.{child}"
            if name not in OURS_FIRST and (parent == package or parent == home_of(package)):
                found = importlib.machinery.PathFinder.find_spec(name, places)
                if found is not None:
                    return found
        return None


class ReverseFinder(MetaPathFinder):
    """Finds modules that ``from tvm.x import y`` asks for under our name of ``tvm.x``; it comes last of all finders."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        for root, ours in (("tvm", f"{THIN}.root"), ("tvm", THIN), *ROOTS.items()):
            if fullname.startswith(ours + "."):
                return self._alias(fullname, root + fullname[len(ours) :])
        return None

    def _alias(self, fullname: str, name: str) -> ModuleSpec | None:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
                return None
            raise
        return ModuleSpec(fullname, AliasLoader(name), is_package=True)
