"""What installed packages bring by entry points: found by name, loaded once, on first use.

Two groups. ``byoc.backends`` is for the compiler: an entry point is named as the target is, and gives the backend's
class. ``byoc.runtime`` (:data:`RUNTIME`) is for what a saved artefact needs to run, where there is no compiler: an
entry point is named by what is asked for, a module's ``type_key``, a kernel table or a kind of device, and gives the
module's class, or whatever is registered when it is imported. A package that cannot be imported breaks nobody else's.

Source: the entry point specification of the Python Packaging User Guide.
"""

from __future__ import annotations

import functools
import importlib.metadata
import threading
from dataclasses import dataclass

from byoc.runtime.core.distribution import DISTRIBUTION


@dataclass(frozen=True)
class Loaded:
    """What the entry points of one name gave, and what broke, in words; neither where nobody brings the name."""

    values: tuple[object, ...] = ()
    broken: str | None = None


class EntryPoints:
    """The entry points of *group*, which are read when a name is asked for."""

    def __init__(self, group: str):
        self.group = group
        self._loaded: dict[str, Loaded] = {}
        self._loading = threading.local()  # the names that this thread is loading: a package may ask for its own

    def names(self) -> list[str]:
        """The names that installed packages bring."""
        return [entry.name for entry in importlib.metadata.entry_points(group=self.group)]

    def load(self, name: str) -> Loaded:
        """Import what brings *name*, once. What a package raises there is told, not raised."""
        if name not in self._loaded and name not in vars(self._loading):
            setattr(self._loading, name, True)
            try:
                self._loaded[name] = self._load(name)
            finally:
                delattr(self._loading, name)
        return self._loaded.get(name, Loaded())

    def _load(self, name: str) -> Loaded:
        values, broken = [], None
        entries = {entry.value: entry for entry in self._of(name)}
        if len(entries) > 1:
            told = " and ".join(sorted(f"{_package(entry)} ({value})" for value, entry in entries.items()))
            return Loaded((), f"{told} both bring {name!r}; uninstall one, or give its entry point another name")
        for entry in entries.values():
            try:
                values.append(entry.load())
            except Exception as error:  # a broken package of a vendor must not break the others
                broken = f"{type(error).__name__}: {error}"
        return Loaded(tuple(values), broken)

    def package(self, name: str) -> str | None:
        """The distribution that brings *name*, as ``acme-byoc 1.2``; None for our own, or where nobody does."""
        found = [entry.dist for entry in self._of(name) if entry.dist is not None]
        return next((f"{d.name} {d.version}" for d in found if d.name != DISTRIBUTION), None)

    def _of(self, name: str) -> list[importlib.metadata.EntryPoint]:
        return [entry for entry in importlib.metadata.entry_points(group=self.group) if entry.name == name]


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without a name"


RUNTIME = EntryPoints("byoc.runtime")


@functools.cache
def is_installed(package: str) -> bool:
    """Whether *package* (``acme-byoc 1.2``) is installed, in whatever version."""
    try:
        importlib.metadata.version(package.split(" ")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
    return True


def advice(packages: tuple[str, ...]) -> str:
    """What to install of the *packages* that an artefact names, as the end of a sentence; empty where all are here."""
    missing = [package for package in packages if not is_installed(package)]
    return f"; install {', '.join(missing)}, with which it was made" if missing else ""


@functools.cache
def package_of(name: str) -> str | None:
    """The distribution that brings *name* to the runtime, as :meth:`EntryPoints.package`."""
    return RUNTIME.package(name)
