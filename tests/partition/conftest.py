"""A backend for the tests of this folder: it takes the operators that it is given, and says no to the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from byoc.contract import (
    BACKENDS,
    Backend,
    Limits,
    PatternEntry,
    Verdict,
    accept,
    callee_name,
    refuse,
    register_backend,
)
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES


class ToyBackend(Backend):
    """Takes *operators* and its own composites."""

    def __init__(
        self, name: str, operators: Sequence[str], entries: Sequence[PatternEntry] = (), limits: Limits | None = None
    ):
        self.name = name
        self.operators = frozenset(operators)
        self.entries = entries
        self.limits = limits or Limits()

    def patterns(self) -> Sequence[PatternEntry]:
        return self.entries

    def supports(self, call) -> Verdict:
        if callee_name(call) in self.operators or callee_name(call).startswith(f"{self.name}."):
            return accept(call)
        return refuse(call, "operator", f"only {', '.join(sorted(self.operators))}", callee_name(call))

    def compile(self, function, options):
        raise NotImplementedError("it is planned for alone")


@pytest.fixture
def backend():
    """Registers toy backends for one test."""
    names = []

    def register(*args, kind=ToyBackend, **options):
        made = kind(*args, **options)
        register_backend(made)
        names.append(made.name)
        return made

    register.Toy = ToyBackend
    yield register
    for name in names:
        for registry in (BACKENDS, TARGET_PREDICATES, PATTERN_TABLES):
            registry.unregister(name)
        for key in (f"relay.ext.{name}", f"relay.ext.{name}.optimize"):
            if key in GLOBAL_FUNCTIONS:
                GLOBAL_FUNCTIONS.unregister(key)
