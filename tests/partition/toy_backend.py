"""A backend for tests: it takes the operators that it is told, and says no to the rest."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.backend import Backend, Limits, PatternEntry, Verdict, accept, callee_name, refuse


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
