"""Installed packages that bring a backend: entry points of the group ``byoc.backends``, each loaded once.

What a saved artefact needs to run is brought by another group (:mod:`byoc.runtime.core.entry_points`).
"""

from __future__ import annotations

import importlib

from byoc.runtime.core.entry_points import EntryPoints

BACKENDS = EntryPoints("byoc.backends")
REGISTRATION = "byoc.contract.registration"  # is told what an entry point gives; imported when there is one

_TOLD: set[str] = set()  # the names whose values the registration knows


def names() -> list[str]:
    """The names that installed packages bring."""
    return BACKENDS.names()


def load(name: str) -> str | None:
    """Import what brings *name*, once; what broke there, in words, or None where nothing did or nobody brings it."""
    loaded = BACKENDS.load(name)
    if loaded.values and name not in _TOLD:
        _TOLD.add(name)
        for value in loaded.values:
            importlib.import_module(REGISTRATION).register_installed(name, value)
    return loaded.broken
