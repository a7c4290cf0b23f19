"""Installed packages that bring a backend: entry points of the group ``byoc.backends``, each loaded once.

Source: the entry point specification of the Python Packaging User Guide.
"""

from __future__ import annotations

import importlib
import importlib.metadata

GROUP = "byoc.backends"

_LOADED: dict[str, str | None] = {}  # name -> what broke when it was loaded
REGISTRATION = "byoc.contract.registration"  # is told what an entry point gives; imported when there is one


def names() -> list[str]:
    """The names that installed packages bring."""
    return [entry.name for entry in importlib.metadata.entry_points(group=GROUP)]


def load(name: str) -> str | None:
    """Import what brings *name*, once; what broke there, in words, or None where nothing did or nobody brings it."""
    if name not in _LOADED:
        _LOADED[name] = None
        for entry in importlib.metadata.entry_points(group=GROUP):
            if entry.name == name:
                _LOADED[name] = _load(entry)
    return _LOADED[name]


def _load(entry: importlib.metadata.EntryPoint) -> str | None:
    try:
        found = entry.load()
    except Exception as error:  # a broken vendor package must not break the others
        return f"{type(error).__name__}: {error}"
    importlib.import_module(REGISTRATION).register_installed(entry.name, found)
    return None
