"""The registry of global functions by TVM's names. Source: ``tvm._ffi``.

byoc has no foreign-function interface: a global function is a Python function. ``_init_api`` fills a module with those
of its namespace, as TVM does.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.compat.tvm_modules.error import TVMError
from byoc.compat.tvm_modules.namespaces import init_api
from byoc.ir.registry import GLOBAL_FUNCTIONS
from byoc.ir.registry import get_global_func as _get_global_func
from byoc.ir.registry import register_func as _register_func

Function = Callable[..., object]


class _Callables(type):
    """A class that everything that can be called counts as."""

    def __instancecheck__(cls, instance: object) -> bool:
        return callable(instance)


class PackedFunc(metaclass=_Callables):
    """A function of the runtime: any that can be called. Source: ``tvm.runtime.PackedFunc``."""


def register_func(
    func_name: str | Function, f: Function | None = None, override: bool = False
) -> Function | Callable[[Function], Function]:
    """Register a global function; used bare as a decorator it takes the function's own name.

    Raises RegistryError when the name is taken and *override* is false. Source: ``tvm.register_func``.
    """
    if callable(func_name):
        return _register_func(func_name.__name__, func_name, override)
    return _register_func(func_name, f, override)


def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """The global function *name*. Raises RegistryError where it is missing, or gives None with *allow_missing*.

    Source: ``tvm.get_global_func``.
    """
    return _get_global_func(name, allow_missing)


def remove_global_func(name: str) -> None:
    """Forget a global function. Raises RegistryError where there is none."""
    GLOBAL_FUNCTIONS.unregister(name)


def list_global_func_names() -> list[str]:
    """The names of all global functions."""
    return list(GLOBAL_FUNCTIONS)


_init_api = init_api


def register_object(type_key: str | type | None = None) -> object:
    """A decorator that leaves the class as it is: byoc's classes are not bound to C++ ones."""
    return type_key if isinstance(type_key, type) else lambda cls: cls


__all__ = [
    "Function",
    "PackedFunc",
    "TVMError",
    "get_global_func",
    "list_global_func_names",
    "register_func",
    "register_object",
    "remove_global_func",
]
