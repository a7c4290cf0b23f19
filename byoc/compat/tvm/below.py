"""Names of what Relay had below the graph: schedules, TIR, LLVM, tuning, devices over RPC.

Importing such a name works, so that files which only mention it can be loaded; using it raises one sentence.
"""

from __future__ import annotations

import types

from byoc.errors import UserError


class NotHereError(UserError, NotImplementedError):
    """Something of TVM that is not the graph language, its passes or their execution, and that byoc does not have."""


class Missing:
    """A name that can be imported and passed around, and that raises NotHereError when it is called or subclassed."""

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Missing:
        if attribute.startswith("__"):
            raise AttributeError(f"{self._name} has no attribute {attribute}")
        return Missing(f"{self._name}.{attribute}")

    def __call__(self, *args: object, **options: object) -> object:
        raise self._error()

    def __getitem__(self, key: object) -> object:
        raise self._error()

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        raise self._error()

    def __instancecheck__(self, instance: object) -> bool:
        return False  # there is no object of a class that is not here

    def _error(self) -> NotHereError:
        return NotHereError(
            f"{self._name} belongs to what TVM had below or beside the graph language (schedules, TIR, LLVM, tuning), "
            "which byoc does not have: describe the region with a codegen registered as relay.ext.<name> instead"
        )

    def __repr__(self) -> str:
        return f"<{self._name}: not in byoc>"


class BelowModule(types.ModuleType):
    """A module of such names."""

    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Missing:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__} has no attribute {name}")
        return Missing(f"{self.__name__}.{name}")
