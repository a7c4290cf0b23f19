"""``_init_api``: the global functions of a namespace as names of a module, with stubs for those that nobody registered.

A vendor's file calls ``tvm._ffi._init_api("relay.ext.acme.transform", __name__)`` and then uses names that its C++
library registers. Where that library is not here, each such name is a stub, which says in one sentence what is missing
when it is used; a plain NameError would not.
"""

from __future__ import annotations

import ast
import builtins
import sys
import types
from collections.abc import Callable
from pathlib import Path

from byoc.compat.tvm.below import Missing, NotHereError
from byoc.ir.registry import GLOBAL_FUNCTIONS


class MissingFunction(Missing):
    """A global function that a vendor's library registers, which is not here."""

    def _error(self) -> NotHereError:
        return NotHereError(
            f"the global function {self._name} is a vendor's own, and its library is not here: register it with "
            "tvm.register_func, or leave out what needs it"
        )


def init_api(namespace: str, target_module_name: str | None = None) -> None:
    """Set the functions registered as ``<namespace>.<name>`` on the module *target_module_name* (or *namespace*).

    Names that the module's file reads and nothing defines are stubs of functions of that namespace. Source:
    ``tvm._ffi._init_api``.
    """
    module = sys.modules[target_module_name or namespace]
    prefix = namespace.removeprefix("tvm.") + "."
    found = {
        name[len(prefix) :]: GLOBAL_FUNCTIONS[name]
        for name in GLOBAL_FUNCTIONS
        if name.startswith(prefix) and "." not in name[len(prefix) :]
    }
    vars(module).update(found)
    for name in _undefined_names(module):
        setattr(module, name, MissingFunction(prefix + name))
    if not found and "__getattr__" not in vars(module):
        vars(module)["__getattr__"] = _attribute_of(module, prefix)


def _attribute_of(module: types.ModuleType, prefix: str) -> Callable[[str], object]:
    """What gives the names that a module without its library lacks: the function once it is registered, else a stub."""

    def find(name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {module.__name__} has no attribute {name}")
        return GLOBAL_FUNCTIONS.get(prefix + name) or MissingFunction(prefix + name)

    return find


def _undefined_names(module: types.ModuleType) -> list[str]:
    """The names that the file of *module* reads and that neither it nor Python defines."""
    path = getattr(module, "__file__", None)
    if not path or not Path(path).is_file():
        return []
    tree = ast.parse(Path(path).read_bytes(), path)
    if any(isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names) for node in ast.walk(tree)):
        return []  # which names such an import brings is known only when it has run
    read: set[str] = set()
    bound = {*vars(builtins), *vars(module)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
    return sorted(read - bound)
