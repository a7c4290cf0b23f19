"""Who is there: backends by name, registered in this process, brought by installed packages, or known to Relay."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from byoc.contract.backend import Backend
from byoc.errors import PartitionError, vendors_line
from byoc.ir import entry_points
from byoc.ir.module import IRModule
from byoc.ir.op import OPS
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry, caller_location
from byoc.relay.expr import Function
from byoc.runtime.core.entry_points import definition_of, kind_of, source_of

if TYPE_CHECKING:
    from byoc.relay.op.contrib.register import PatternTable

BACKENDS: Registry[Backend] = Registry("backend")
B = TypeVar("B", bound=type[Backend] | Backend)


@overload
def register_backend(backend: B, *, override: bool = False) -> B: ...
@overload
def register_backend(backend: None = None, *, override: bool = False) -> Callable[[B], B]: ...
def register_backend(backend: B | None = None, *, override: bool = False) -> B | Callable[[B], B]:
    """Register a backend, as a call or as a class decorator, also as ``relay.ext.<name>``.

    A class that is defined again at the same place (a notebook's cell that runs twice, a module that is reloaded) takes
    the place of what it was.

    Args:
        backend: the class, or an object of it.
        override: take the place of a backend of that name from another place.

    Raises:
        PartitionError: it has no name or one against the rule, cannot compile, or does not say what it takes.
        RegistryError: the name is taken by a backend from another place, and *override* is false.
    """
    where = caller_location()

    def register(given: B) -> B:
        if not (issubclass(given, Backend) if isinstance(given, type) else isinstance(given, Backend)):
            raise PartitionError(
                f"register_backend was given {kind_of(given)}, expected a class made of byoc.contract.Backend, as in "
                "class Acme(Backend)"
            )
        _register(_made(given) if isinstance(given, type) else given, where, override)
        return given

    return register if backend is None else register(backend)


def _made(kind: type[Backend]) -> Backend:
    """An object of a backend's class. Raises PartitionError where making one, without arguments, raises."""
    try:
        return kind()
    except Exception as error:  # whatever a vendor's code raises
        raise PartitionError(
            f"register_backend: {kind.__name__}() failed: {vendors_line(error)}; a class is made without arguments, "
            "or register an object of it"
        ) from error


def _register(instance: Backend, where: str, override: bool) -> None:
    from byoc.contract.checks import check_backend, pattern_entries
    from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

    check_backend(instance)
    name, source = instance.name, source_of(instance)

    def table() -> PatternTable:
        return [(e.name, e.pattern, e.check) for e in pattern_entries(instance)]

    entries: list[tuple[Registry[Any], str, object]] = [
        (BACKENDS, name, instance),
        (TARGET_PREDICATES, name, instance.supports),
        (PATTERN_TABLES, name, table),
        (GLOBAL_FUNCTIONS, f"relay.ext.{name}", lambda function: instance.compile(function, {})),
    ]
    optimize = f"relay.ext.{name}.optimize"
    if type(instance).optimize is not Backend.optimize:
        entries.append((GLOBAL_FUNCTIONS, optimize, lambda mod: IRModule({"main": _optimized(instance, mod["main"])})))
    elif GLOBAL_FUNCTIONS.source(optimize) == source:
        GLOBAL_FUNCTIONS.unregister(optimize)  # of the class that this one replaces
    for registry, key, _ in () if override else entries:
        registry.check_free(key, where, source)
    for registry, key, value in entries:
        registry.register(key, value, where=where, override=True, source=source)


def _optimized(instance: Backend, region: Function) -> Function:
    """*region* as the backend changes it. Raises PartitionError for what is no function."""
    changed: object = instance.optimize(region)
    if isinstance(changed, Function):
        return changed
    raise PartitionError(f"its optimize(region) gave a {type(changed).__name__}, expected the region, changed or not")


def register_found(backend: type[Backend] | Backend) -> None:
    """Register a backend that was found and not registered by its author, at the place where its class stands.

    Raises as :func:`register_backend`.
    """
    _register(backend() if isinstance(backend, type) else backend, definition_of(backend), False)


def register_installed(name: str, found: object) -> str | None:
    """Register what the entry point *name* gives, where that is a class which did not register itself.

    Returns:
        What is wrong with it, as a sentence: it is neither a backend of that name nor a module; None where nothing is.
    """
    if isinstance(found, ModuleType):  # whatever it registered: a backend, functions of Relay's style, kernels
        return None
    if not isinstance(found, Backend) and not (isinstance(found, type) and issubclass(found, Backend)):
        return (
            f"backend {name!r}: {entry_points.described(name)} gives {kind_of(found)}, expected the backend's class, "
            f"as in {name} = {name}_package.backend:{name.title().replace('_', '')}"
        )
    if found.name != name:
        return (
            f"{entry_points.described(name)} gives {source_of(found)}, a backend called {found.name!r}; an entry point "
            f"is called as its backend: call it {found.name!r}, or write name = {name!r} in the class"
        )
    if name not in BACKENDS:
        register_found(found)
    return None


_OFFERING: dict[str, None] = {}  # modules that make backends of what was declared


def offer_backends(module: str) -> None:
    """Have *module* give backends: ``offered()`` their names, ``offer(name)`` one or None. Imported when asked."""
    _OFFERING[module] = None


def _offered(name: str) -> Backend | None:
    for module in _OFFERING:
        found: Backend | None = importlib.import_module(module).offer(name)
        if found is not None:
            return found
    return None


def backend_names() -> list[str]:
    """The names of all backends: registered, installed, offered, or known by a Relay-style ``relay.ext.<name>``."""
    names = set(BACKENDS)
    names.update(entry_points.names())
    names.update(name for module in _OFFERING for name in importlib.import_module(module).offered())
    names.update(
        key.removeprefix("relay.ext.")
        for key in GLOBAL_FUNCTIONS
        if key.startswith("relay.ext.") and key.count(".") == 2
    )
    return sorted(names)


def get_backend(name: str) -> Backend:
    """The backend *name*. Raises PartitionError with the known names, with what broke its package or is wrong in its
    entry point, or for a constraint or a kernel of an operator that there is not, which would never be asked.
    """
    from byoc.contract.checks import nearest_names
    from byoc.contract.operator_names import check_names
    from byoc.contract.relay_style import RelayStyleBackend

    broken = entry_points.load(name)
    if name in BACKENDS and not (broken and entry_points.is_from(name, type(BACKENDS[name]).__module__)):
        check_names(BACKENDS[name], _composites_of)
        return BACKENDS[name]
    if broken:
        raise PartitionError(broken)
    offered = _offered(name)
    if offered is not None:
        check_names(offered, _composites_of)
        return offered
    if f"relay.ext.{name}" in GLOBAL_FUNCTIONS:
        return RelayStyleBackend(name)
    known = backend_names()
    if _is_annotated(name):
        compilers = [key for key in known if f"relay.ext.{key}" in GLOBAL_FUNCTIONS]
        raise PartitionError(
            f"the target {name!r} has patterns or annotations (target.{name}) and no compiler: write "
            f'@register_func("relay.ext.{name}") above it; registered are '
            f"{', '.join(f'relay.ext.{key}' for key in compilers) or 'none'}{nearest_names(name, compilers)}"
        )
    raise PartitionError(
        f"no backend is called {name!r}; known: {', '.join(known) or 'none'}{nearest_names(name, known)}{_hint(name)}"
    )


def check_hooks(name: str, hooks: Sequence[tuple[str, str]]) -> None:
    """Raises PartitionError for one of *hooks*, of a generator of the backend *name*, that is of nothing that there is.

    A backend that nobody registered, as in a test of a generator alone, has no patterns to look at: nothing is raised.
    """
    from byoc.contract.operator_names import check_names

    if name in BACKENDS or f"relay.ext.{name}" in GLOBAL_FUNCTIONS:
        check_names(get_backend(name), _composites_of, hooks)


def _composites_of(name: str) -> Collection[str] | None:
    """The composites of the backend *name*; None for one whose patterns are not known here."""
    from byoc.contract.operator_names import rows_of

    if name in BACKENDS:
        return [row.name for row in rows_of(BACKENDS[name])]
    unknown = entry_points.described(name) is not None or f"relay.ext.{name}" in GLOBAL_FUNCTIONS
    return None if unknown else ()


def _is_annotated(name: str) -> bool:
    """Whether somebody registered a pattern table or an operator's attribute for the target *name*, as for TVM."""
    from byoc.relay.op.contrib.register import PATTERN_TABLES

    return name in PATTERN_TABLES or any(op.has_attr(f"target.{name}") for op in OPS.loaded())


def _hint(name: str) -> str:
    """Where the backend *name* may be, as the end of a sentence."""
    brought = entry_points.described(name)
    if brought is not None:
        return f"; {brought} was imported and registered no backend of that name"
    found = next((text for text in (f"{name}.py", name, f"byoc_{name}") if _is_there(text)), None)
    if found is None:
        return ""
    what = "a file" if found.endswith(".py") else "a module"
    return (
        f"; there is {what} {found}, which no entry point of the group {entry_points.BACKENDS.group} names: "
        f"--import {found} imports it first, or byoc.contract.importing.import_backend({found!r})"
    )


def _is_there(named: str) -> bool:
    """Whether there is a file, or a module that is none of Python's own, of that name; it is not imported."""
    if named.endswith(".py"):
        return Path(named).is_file()
    try:
        known = named.isidentifier() and named not in sys.stdlib_module_names
        return known and importlib.util.find_spec(named) is not None
    except (ImportError, ValueError):  # half imported, or without a spec
        return False
