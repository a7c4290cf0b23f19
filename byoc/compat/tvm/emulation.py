"""``emulate("tensorrt")``: the environment of a vendor's library that is not here, for whoever asks for it.

Regions of that library then run on byoc's JSON engine, and its device is the host. So the graph's side of an
integration can be tried whole, without the vendor's hardware; nothing is said about its speed or its rounding.
"""

from __future__ import annotations

import importlib
import types
from collections.abc import Callable

from byoc.compat.tvm_modules.emulated import ENVIRONMENTS, enter, leave
from byoc.errors import UserError
from byoc.ir.registry import GLOBAL_FUNCTIONS, register_func


class Emulation:
    """An environment that answers until :meth:`undo`, or to the end of a ``with`` block."""

    def __init__(self, name: str, functions: tuple[str, ...]):
        self.name, self._functions = name, functions
        self._answers = True

    @property
    def answers(self) -> bool:
        """Whether the environment answers still."""
        return self._answers

    def undo(self) -> None:
        """Let the environment answer no more; again does nothing."""
        if not self._answers:
            return
        self._answers = False
        leave(self.name)
        for function in self._functions:
            if function in GLOBAL_FUNCTIONS:
                GLOBAL_FUNCTIONS.unregister(function)

    def __enter__(self) -> Emulation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.undo()


def emulation(name: str) -> Emulation:
    """Let the environment *name* answer.

    Raises UserError for a name that there is none for, and where a function of its is registered already.
    """
    if name not in ENVIRONMENTS:
        raise UserError(f"there is no emulation of {name!r}; known: {', '.join(ENVIRONMENTS)}")
    functions = ENVIRONMENTS[name].functions
    taken = next((function for function in functions if function in GLOBAL_FUNCTIONS), None)
    if taken is not None:
        raise UserError(f"{name} cannot be emulated: {taken} is registered already, by the library or in its place")
    for function, place in functions.items():
        register_func(function, _loaded(place))
    enter(name)
    return Emulation(name, tuple(functions))


def _loaded(place: str) -> Callable[..., object]:
    source, _, attribute = place.partition(":")
    loaded: Callable[..., object] = getattr(importlib.import_module(source), attribute)
    return loaded
