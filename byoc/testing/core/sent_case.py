"""A case as text and arrays: what travels to another process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from byoc.ir.module import IRModule
from byoc.relay.expr import Function
from byoc.relay.text import astext, parse
from byoc.testing.core.case import Arrays, Case, function_of


@dataclass(frozen=True)
class SentCase:
    """A case as text and arrays."""

    name: str
    operator: str
    kind: str
    text: str
    feeds: tuple[Arrays, ...]
    whole: bool = False
    notes: Mapping[str, object] = field(default_factory=dict)

    @staticmethod
    def of(case: Case) -> SentCase:
        """*case*, ready to be sent."""
        text = str(astext(IRModule.from_expr(case.function)))
        return SentCase(case.name, case.operator, case.kind, text, case.feeds, case.whole, case.notes)

    @property
    def case(self) -> Case:
        """The case again."""
        main = parse(self.text)["main"]
        assert isinstance(main, Function)
        function = function_of(main.params, main.body)
        return Case(self.name, self.operator, self.kind, function, self.feeds, self.whole, self.notes)
