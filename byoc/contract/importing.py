"""Backends in a file or a module that is named, not installed: imported, and what stands in it registered."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

from byoc.contract.backend import Backend
from byoc.contract.registration import BACKENDS, register_found
from byoc.errors import UserError, in_one_line
from byoc.ir import entry_points
from byoc.runtime.core.entry_points import source_of
from byoc.runtime.core.errors import vendors_failure
from byoc.runtime.modules.module import LOADERS, Module, register_module_loader

_IMPORTED: dict[str, ModuleType] = {}  # file -> what was imported of it
_NAMED: dict[str, None] = {}  # what was imported, files by their whole paths, in its order


def import_backend(named: str, place: str = "") -> ModuleType:
    """Import *named*, a path that ends in ``.py`` or a module, and register its backends and runtime modules.

    A file is imported under its own name, and its folder is searched last for what it imports. Classes in it that
    nobody registered are: of backends that have a name, of runtime modules that have a ``type_key``. *place* begins the
    messages.

    Raises:
        UserError: there is no such file or module, its name is taken, or importing it raises.
    """
    where = place or named
    try:
        module = _file(Path(named)) if named.endswith(".py") else importlib.import_module(named)
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == module.__name__:
                _register(value)
    except UserError as error:
        raise type(error)(f"{where}: {error}") from error
    except BaseException as raised:  # whatever a vendor's code raises
        failure = vendors_failure(raised)
        if isinstance(failure, ModuleNotFoundError) and f"{named}.".startswith(f"{failure.name}."):
            hint = f"did you mean {named}.py?" if Path(f"{named}.py").is_file() else "a file is named with its .py"
            raise UserError(f"{where}: there is no such module; {hint}") from raised
        problem = f"{where} cannot be imported: {in_one_line(failure)}{_line(failure, named)}"
        if isinstance(failure, ModuleNotFoundError) and str(failure.name).partition(".")[0] == "tvm":
            problem += "; code for TVM's Relay runs where byoc has its names: python -m byoc.compat.tvm -m byoc ..."
        raise UserError(problem) from raised
    _NAMED[os.path.realpath(named) if named.endswith(".py") else named] = None
    return module


def imported_backends() -> tuple[str, ...]:
    """What :func:`import_backend` was given in this process, files by whole paths: another may import the same."""
    return tuple(_NAMED)


def imported_first(named: str) -> None:
    """Have processes of ours that import what this one imported import the module *named* before it."""
    others = [other for other in _NAMED if other != named]
    _NAMED.clear()
    _NAMED.update(dict.fromkeys([named, *others]))


def no_longer_imported(named: str) -> None:
    """Take back what :func:`imported_first` said."""
    _NAMED.pop(named, None)


def _file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError("there is no such file; name a file that ends in .py, or a module that is installed")
    file, name = os.path.realpath(path), path.stem
    if file in _IMPORTED:
        return _IMPORTED[file]
    if not name.isidentifier():
        raise UserError(f"{name!r} cannot be the name of a module; rename the file, as in acme.py")
    there = sys.modules.get(name)
    if there is not None and os.path.realpath(getattr(there, "__file__", None) or "") == file:
        return there
    other = None if there is not None else importlib.util.find_spec(name)
    if there is not None or (other is not None and os.path.realpath(other.origin or "") != file):
        origin = getattr(there, "__file__", None) if other is None else other.origin
        raise UserError(f"a module is called {name!r} already{f' ({origin})' if origin else ''}; rename the file")
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None  # of a file that ends in .py
    module = importlib.util.module_from_spec(spec)
    if os.path.dirname(file) not in sys.path:
        sys.path.append(os.path.dirname(file))
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _IMPORTED[file] = module
    return module


def _line(error: BaseException, named: str) -> str:
    """Where in the file *named* the error was raised, as the end of a sentence."""
    found, trace = "", error.__traceback__
    while trace is not None:
        if os.path.basename(trace.tb_frame.f_code.co_filename) == os.path.basename(named):
            found = f" ({named}:{trace.tb_lineno})"
        trace = trace.tb_next
    return found


def _register(kind: type) -> None:
    if issubclass(kind, Backend) and kind.name:
        entry_points.load(kind.name)  # who has the name already, byoc's own backends among them
        there = BACKENDS.get(kind.name)
        if there is None:
            register_found(kind)
        elif type(there).__module__ != kind.__module__:
            raise UserError(
                f"its class {source_of(kind)} is a backend called {kind.name!r}, as is {source_of(there)}; choose "
                "another name, or write @register_backend(override=True) above the class to take its place"
            )
    if issubclass(kind, Module) and kind.type_key and not _is_spoken_for(kind):
        register_module_loader(kind.type_key, kind)


def _is_spoken_for(kind: type[Module]) -> bool:
    """Whether its author said what loads modules of its type: a class in its own line, or one that its file names."""
    taken = LOADERS.get(kind.type_key)
    if taken is None:
        return False
    if isinstance(taken, str):
        return taken.partition(":")[0] == kind.__module__ or "type_key" not in vars(kind)
    return "type_key" not in vars(kind) or issubclass(taken, kind) or issubclass(kind, taken)
