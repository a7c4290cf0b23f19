"""Who is there: backends by name, registered in this process, brought by installed packages, or known to Relay."""

from __future__ import annotations

import difflib
from weakref import WeakSet

from byoc.contract.backend import Backend
from byoc.contract.relay_style import RelayStyleBackend
from byoc.contract.verdict import EVERY, ConstraintCheck
from byoc.errors import PartitionError
from byoc.ir import entry_points
from byoc.ir.module import IRModule
from byoc.ir.op import OPS
from byoc.ir.registry import GLOBAL_FUNCTIONS, Registry, caller_location, register_func
from byoc.relay.op.contrib.register import PATTERN_TABLES, TARGET_PREDICATES

BACKENDS: Registry[Backend] = Registry("backend")


def register_backend(backend: type[Backend] | Backend) -> type[Backend] | Backend:
    """Register a backend (class or object), as a call or as a class decorator, also as ``relay.ext.<name>``.

    Raises PartitionError when it has no name, RegistryError when the name is taken.
    """
    instance = backend() if isinstance(backend, type) else backend
    if not instance.name:
        raise PartitionError(f"{type(instance).__name__} needs a name: the target that users will write")
    where = caller_location()
    BACKENDS.register(instance.name, instance, where=where)
    TARGET_PREDICATES.register(instance.name, instance.supports, where=where)
    PATTERN_TABLES.register(
        instance.name, lambda: [(e.name, e.pattern, e.check) for e in instance.patterns()], where=where
    )
    register_func(f"relay.ext.{instance.name}", lambda function: instance.compile(function, {}))
    if type(instance).optimize is not Backend.optimize:
        register_func(
            f"relay.ext.{instance.name}.optimize", lambda mod: IRModule({"main": instance.optimize(mod["main"])})
        )
    return backend


def register_installed(name: str, found: object) -> None:
    """Register what the entry point *name* gives, where that is a class which did not register itself."""
    if isinstance(found, type) and issubclass(found, Backend) and name not in BACKENDS:
        register_backend(found)


def backend_names() -> list[str]:
    """The names of all backends: registered, installed, or known by a Relay-style ``relay.ext.<name>``."""
    names = set(BACKENDS)
    names.update(entry_points.names())
    names.update(
        key.removeprefix("relay.ext.")
        for key in GLOBAL_FUNCTIONS
        if key.startswith("relay.ext.") and key.count(".") == 2
    )
    return sorted(names)


def get_backend(name: str) -> Backend:
    """The backend *name*. Raises PartitionError with the known names, with what broke its package, or for a constraint
    about an operator that there is not, which would never be asked.
    """
    broken = entry_points.load(name)
    if name in BACKENDS:
        backend = BACKENDS[name]
        if backend not in _KNOWN:
            _check_names(backend)
            _KNOWN.add(backend)
        return backend
    if broken:
        raise PartitionError(f"the package of backend {name!r} cannot be imported: {broken}")
    if f"relay.ext.{name}" in GLOBAL_FUNCTIONS:
        return RelayStyleBackend(name)
    raise PartitionError(f"no backend is called {name!r}; known: {', '.join(backend_names()) or 'none'}")


_KNOWN: WeakSet[Backend] = WeakSet()  # whose constraints are about operators that there are


def _check_names(backend: Backend) -> None:
    """Not when it is registered, since the operators of a vendor may be registered after it."""
    try:
        entries = backend.patterns()
    except Exception:  # told where the patterns are asked for
        entries = ()
    checks = [e.check.constraints for e in entries if isinstance(e.check, ConstraintCheck)]
    known = {EVERY, *OPS, *(e.name for e in entries)}
    for condition in (*backend.constraints, *(c for check in checks for c in check)):
        other = next((name for name in condition.of if name not in known), None)
        if other is not None:
            near = difflib.get_close_matches(other, sorted(known), n=5)
            raise PartitionError(
                f"backend {backend.name!r}: its constraint {condition.code!r} is about {other!r}, which is neither an "
                f"operator nor one of its patterns{'; the nearest: ' if near else ''}{', '.join(near)}"
            )
