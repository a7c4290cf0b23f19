"""The reader of variables where they are bound, with their scopes, and of the patterns of ``match``.

Source: Relay's text format 0.0.5; ``%x#1`` and ``/* name="1" */`` are ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.ir.module import IRModule
from byoc.ir.virtual_device import UNCONSTRAINED, VirtualDevice
from byoc.relay.adt import Pattern, PatternConstructor, PatternTuple, PatternVar, PatternWildcard
from byoc.relay.expr import VIRTUAL_DEVICE, Var
from byoc.relay.text.atoms import nearest
from byoc.relay.text.lexer import Tokens
from byoc.relay.text.type_reader import TypeReader


class ScopeReader(TypeReader):
    """Knows which variables are in scope."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[object]], module: IRModule | None = None):
        super().__init__(tokens, meta, module)
        self._scope: dict[str, list[Var]] = {}

    def _declared(self) -> tuple[str, Var]:
        """A variable where it is bound: ``%x: type``, its span after it; it is in scope from here."""
        key = self.take_kind("local", "a variable, such as %x")
        hint = self.unquoted(key[1 : key.rindex("#")] if self._is_numbered(key) else key[1:])
        if self._kinds[self._at] == "hint":
            text = self._texts[self._at]
            hint = self.unquoted(text[text.index('"') : text.rindex('"') + 1], self._at)
            self._at += 1
        is_placed = self.next_is("{") and self._texts[self._at + 1] == VIRTUAL_DEVICE
        device = self._device() if is_placed else UNCONSTRAINED
        annotation = self.type() if self.skip(":") else None
        var = Var(hint, annotation, self.span())
        var.virtual_device_ = device
        self._scope.setdefault(key, []).append(var)
        return key, var

    def _device(self) -> VirtualDevice:
        """``{virtual_device=meta[VirtualDevice][0]}``: where the variable is."""
        self.take("{")
        self.take(VIRTUAL_DEVICE)
        self.take("=")
        at = self._at
        device = self.value()
        if not isinstance(device, VirtualDevice):
            raise self.error(f"{VIRTUAL_DEVICE} must be a virtual device of the metadata, got {device!r}", at)
        self.take("}")
        return device

    @staticmethod
    def _is_numbered(key: str) -> bool:
        return "#" in key and not key.endswith('"')

    def _close(self, keys: Sequence[str]) -> None:
        for key in reversed(keys):
            self._scope[key].pop()

    def _variable(self, key: str, at: int) -> Var:
        known = self._scope.get(key)
        if not known:
            names = [name for name, variables in self._scope.items() if variables]
            raise self.error(f"the variable {key} is not defined here{nearest(key, names)}", at)
        return known[-1]

    # patterns -----------------------------------------------------------------------------------------------------

    def pattern(self, keys: list[str]) -> Pattern:
        """A pattern; the names of the variables that it binds are added to *keys*."""
        return self._nested(lambda: self._pattern(keys))

    def _pattern(self, keys: list[str]) -> Pattern:
        at = self._at
        if self.skip("_"):
            return PatternWildcard()
        if self._kinds[at] == "local":
            key, var = self._declared()
            keys.append(key)
            return PatternVar(var)
        if self.skip("("):
            return PatternTuple(self._patterns(keys))
        if self._kinds[at] not in ("name", "string"):
            raise self.expected("a pattern: a constructor, a variable, _ or a tuple of patterns")
        self._at += 1
        name = self.unquoted(self._texts[at], at)
        if name not in self._constructors:
            raise self.error(f"no constructor is called {name!r}{nearest(name, list(self._constructors))}", at)
        inner = self._patterns(keys) if self.skip("(") else []
        return PatternConstructor(self._constructors[name], inner)

    def _patterns(self, keys: list[str]) -> list[Pattern]:
        return self.listed(")", lambda: self.pattern(keys))[0]
