"""Installed packages that bring a backend: entry points of the group ``byoc.backends``, each loaded once.

What a saved artefact needs to run is brought by another group (:mod:`byoc.runtime.core.entry_points`).
"""

from __future__ import annotations

import importlib

from byoc.runtime.core.entry_points import EntryPoints

BACKENDS = EntryPoints("byoc.backends", "backend")
REGISTRATION = "byoc.contract.registration"  # gets what an entry point gives; imported when there is one

_MISTAKES: dict[str, str | None] = {}  # what the registration said of what a name gave


def names() -> list[str]:
    """The names that installed packages bring."""
    return BACKENDS.names()


def load(name: str) -> str | None:
    """Import what brings *name*, once; what is wrong there, as a sentence, or None where nothing is or nobody brings
    it.
    """
    loaded = BACKENDS.load(name)
    if loaded.values and name not in _MISTAKES:
        _MISTAKES[name] = None  # as far as the package itself may ask
        for value in loaded.values:
            _MISTAKES[name] = importlib.import_module(REGISTRATION).register_installed(name, value)
    if loaded.broken:
        return f"the package of backend {name!r} cannot be imported: {loaded.broken}"
    return loaded.mistake or _MISTAKES.get(name)


def is_from(name: str, module: str) -> bool:
    """Whether a package that brings *name* holds *module*."""
    return any(m.partition(".")[0] == module.partition(".")[0] for m in BACKENDS.modules(name))


def described(name: str) -> str | None:
    """What brings *name*, in words; None where nobody does."""
    return BACKENDS.described(name)
