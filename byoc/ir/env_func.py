"""A global function named in an object of the compiler, such as the relation of types. Source: ``tvm.ir.EnvFunc``."""

from __future__ import annotations

from byoc.ir.registry import get_global_func

_KNOWN: dict[str, EnvFunc] = {}


class EnvFunc:
    """A global function by its name; the same object for the same name, by :meth:`get`."""

    def __init__(self, name: str):
        self.name = name
        self._function = get_global_func(name)

    @staticmethod
    def get(name: str) -> EnvFunc:
        """The function *name*. Raises RegistryError where there is none."""
        function = get_global_func(name)
        known = _KNOWN.get(name)
        if known is None or known.func is not function:
            known = _KNOWN[name] = EnvFunc(name)
        return known

    @property
    def func(self) -> object:
        """The function itself."""
        return self._function

    def __call__(self, *args: object) -> object:
        return self._function(*args)

    def __repr__(self) -> str:
        return f"EnvFunc({self.name})"
