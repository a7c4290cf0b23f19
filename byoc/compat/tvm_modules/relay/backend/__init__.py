"""What a build is made for: executors and runtimes with their options. Source: ``relay.backend``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from byoc.errors import UserError

# Python's type -> TVM's name of it
_TYPES: dict[type, str] = {bool: "runtime.BoxBool", int: "runtime.BoxInt", str: "runtime.String", float: "FloatImm"}


@dataclass(frozen=True)
class Option:
    """An option: the type of its value, and the value where none is given."""

    kind: type
    default: object = None


class _Named:
    """A registered name with options; ``x["option"]`` is its value."""

    registered: ClassVar[Mapping[str, Mapping[str, Option]]] = {}

    def __init__(self, name: str, options: Mapping[str, object] | None = None):
        known = self._options_of(name)
        kind = type(self).__name__
        for key, value in (options or {}).items():
            if key not in known:
                has = ", ".join(known) or "none"
                raise UserError(f'Attribute "{key}" is not available on this {kind}; it has {has}')
            if type(value) is not known[key].kind:
                raise UserError(
                    f'Attribute "{key}" should have type "{_TYPES[known[key].kind]}" but instead found '
                    f'"{_TYPES.get(type(value), type(value).__name__)}"'
                )
        defaults = {key: option.default for key, option in known.items() if option.default is not None}
        self.name = name
        self.attrs: dict[str, object] = {**defaults, **(options or {})}

    @classmethod
    def _options_of(cls, name: str) -> Mapping[str, Option]:
        if name not in cls.registered:
            raise UserError(f'{cls.__name__} "{name}" is not defined; known: {", ".join(cls.registered)}')
        return cls.registered[name]

    def __getitem__(self, key: str) -> object:
        """The value of an option, None where it has none. Raises UserError for an option that there is not."""
        if key not in self.registered[self.name]:
            raise UserError(f'Attribute "{key}" is not available on this {type(self).__name__}')
        return self.attrs.get(key)

    def __contains__(self, key: str) -> bool:
        return key in self.attrs

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (other.name, other.attrs) == (self.name, self.attrs)

    def __hash__(self) -> int:
        return hash((type(self), self.name, tuple(sorted(self.attrs))))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.attrs})"

    @classmethod
    def list_registered(cls) -> list[str]:
        """The known names."""
        return list(cls.registered)

    @classmethod
    def list_registered_options(cls, name: str) -> dict[str, str]:
        """The options of *name* with TVM's names of their types. Raises UserError for an unknown name."""
        return {key: _TYPES[option.kind] for key, option in cls._options_of(name).items()}


class Executor(_Named):
    """What runs the graph: ``graph``, or ``aot``, which byoc runs as a graph. Source: ``relay.backend.Executor``."""

    registered: ClassVar[Mapping[str, Mapping[str, Option]]] = {
        "graph": {"link-params": Option(bool, False)},
        "aot": {
            "link-params": Option(bool, True),
            "unpacked-api": Option(bool),
            "interface-api": Option(str),
            "workspace-byte-alignment": Option(int),
            "constant-byte-alignment": Option(int),
        },
    }


class Runtime(_Named):
    """The runtime below the executor: ``cpp``, or ``crt`` as a name. Source: ``relay.backend.Runtime``."""

    registered: ClassVar[Mapping[str, Mapping[str, Option]]] = {
        "cpp": {"system-lib": Option(bool)},
        "crt": {"system-lib": Option(bool)},
    }


__all__ = ["Executor", "Option", "Runtime"]
