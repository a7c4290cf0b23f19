"""What a build is made for. Source: ``relay.backend.Executor``, ``relay.backend.Runtime``."""

from __future__ import annotations

from collections.abc import Mapping

from byoc.errors import UserError


class _Named:
    """A registered name with options."""

    names: Mapping[str, Mapping[str, type]] = {}

    def __init__(self, name: str, options: Mapping[str, object] | None = None):
        kind = type(self).__name__
        if name not in self.names:
            raise UserError(f"{kind} {name!r} is not known; known: {', '.join(self.names)}")
        for key in options or {}:
            if key not in self.names[name]:
                known = ", ".join(self.names[name]) or "none"
                raise UserError(f"{kind} {name!r} has no option {key!r}; it has {known}")
        self.name = name
        self.options = dict(options or {})
        self.attrs = self.options

    def __getitem__(self, key: str) -> object:
        return self.options[key]

    def __contains__(self, key: str) -> bool:
        return key in self.options

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and (other.name, other.options) == (self.name, self.options)

    def __hash__(self) -> int:
        return hash((type(self), self.name, tuple(sorted(self.options))))

    def __str__(self) -> str:
        return self.name

    @classmethod
    def list_registered(cls) -> list[str]:
        """The known names."""
        return list(cls.names)

    @classmethod
    def list_registered_options(cls, name: str) -> dict[str, str]:
        """The options of *name* with their types. Raises UserError for an unknown name."""
        return {key: kind.__name__ for key, kind in cls(name).names[name].items()}


class Executor(_Named):
    """What runs the graph: ``graph`` (or ``aot``, which byoc runs as a graph). Source: ``relay.backend.Executor``."""

    names = {
        "graph": {"link-params": bool},
        "aot": {
            "link-params": bool, "unpacked-api": bool, "interface-api": str, "workspace-byte-alignment": int,
            "constant-byte-alignment": int,
        },
    }


class Runtime(_Named):
    """The runtime below the executor: ``cpp``, or ``crt`` as a name. Source: ``relay.backend.Runtime``."""

    names = {"cpp": {"system-lib": bool}, "crt": {"system-lib": bool}}


__all__ = ["Executor", "Runtime"]
