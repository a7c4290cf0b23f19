"""What the devices of this machine can do, where the compiler is installed, whose calibrations are kept."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence

from byoc.runtime.devices.peak import Peak

FINDER, FUNCTION = "byoc.driver.costs.peaks", "kept_peaks"  # by name alone: the runtime is there without it


def kept_peaks(backends: Sequence[str], threads: int = 1) -> Mapping[str, Peak]:
    """By backend, for so many *threads* of host code; nothing where nothing is kept, or only the runtime is here."""
    try:
        found = importlib.import_module(FINDER)
    except ModuleNotFoundError as error:
        of_the_compiler = not (error.name or "").startswith("byoc")  # a package that it needs, and the runtime does not
        if not of_the_compiler and not FINDER.startswith(f"{error.name}."):
            raise
        return {}
    find: Callable[[Sequence[str], int], Mapping[str, Peak]] = getattr(found, FUNCTION)
    return find(backends, threads)
