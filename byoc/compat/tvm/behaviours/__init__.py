"""What Relay does, as checks that a user's program could make: what ``--coverage`` counts beside names.

Each check is written against ``tvm`` alone, one fact each, and raises where byoc does otherwise. They change nothing
that outlives them. Source: Relay's behaviour in Apache TVM v0.18.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

AREAS = ("names", "targets", "types", "layouts", "passes", "running", "text", "integrations")
Check = Callable[[ModuleType, ModuleType], object]


@dataclass(frozen=True)
class Behaviour:
    """One fact: the *area* that it belongs to, a *sentence*, and the *check*, given ``tvm`` and ``tvm.relay``."""

    area: str
    sentence: str
    check: Check

    def missing(self) -> str:
        """Why the fact does not hold, in one line; empty where it does. Installs the compatibility."""
        from byoc.compat.tvm import install

        install()
        tvm, relay = (importlib.import_module(name) for name in ("tvm", "tvm.relay"))
        try:
            self.check(tvm, relay)
        except Exception as error:  # whatever it is, it is the reason
            lines = str(error).strip().splitlines()
            return f"{type(error).__name__}{': ' + lines[0] if lines else ''}"
        return ""


_FOUND: list[Behaviour] = []


def behaviour(area: str, sentence: str) -> Callable[[Check], Check]:
    """Register a check of *area* under a *sentence* that says what Relay does."""

    def register(check: Check) -> Check:
        _FOUND.append(Behaviour(area, sentence, check))
        return check

    return register


def behaviours() -> Sequence[Behaviour]:
    """All of them, area by area."""
    for area in AREAS:
        importlib.import_module(f"{__name__}.{area}")
    return sorted(_FOUND, key=lambda b: AREAS.index(b.area))
