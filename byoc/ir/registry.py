"""Named registries: the only global state that may change.

A duplicate is an error that names both places, an unknown name an error that lists the known ones.
:func:`register_func` and :func:`get_global_func` are the global functions under Relay's names, through which code
generators are found (``relay.ext.<name>``).
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, Literal, TypeVar, overload

from byoc.errors import RegistryError
from byoc.runtime.core.entry_points import source_of

_MOST_NAMED = 12  # names in a message
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


def caller_location(depth: int = 2) -> str:
    """``file:line`` of the code *depth* frames above this function."""
    frame = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None and frame.f_back is not None else frame
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "<unknown>"


class Registry(Generic[T]):
    """Names to values, each with the place of its registration.

    >>> colours = Registry("colour")
    >>> colours.register("red", 1, where="here")
    >>> colours["red"]
    1
    """

    def __init__(self, kind: str):
        self.kind = kind
        self._values: dict[str, T] = {}
        self._places: dict[str, str] = {}
        self._sources: dict[str, str] = {}

    def register(self, name: str, value: T, *, where: str = "", override: bool = False, source: str = "") -> None:
        """Raises RegistryError when *name* is taken, unless *override*, or by what has the same *source*.

        That is where the value is defined (``byoc.runtime.core.entry_points``), for those that may be defined again.
        """
        place = where or caller_location()
        if not override:
            self.check_free(name, place, source)
        self._values[name] = value
        self._places[name] = place
        self._sources[name] = source

    def check_free(self, name: str, place: str, source: str = "") -> None:
        """Raises RegistryError when *name* is taken by what has not the same *source*."""
        again = source != "" and self._sources.get(name) == source
        if name in self._values and not again:
            raise RegistryError(
                f"{self.kind} {name!r} is registered twice: at {self._places[name]} and at {place}; "
                "choose another name, or pass override=True to replace it"
            )

    def unregister(self, name: str) -> None:
        """Raises RegistryError when nothing has that name."""
        self[name]
        del self._values[name]
        del self._places[name]
        del self._sources[name]

    def get(self, name: str) -> T | None:
        """The value, or None where there may be none."""
        return self._values.get(name)

    def source(self, name: str) -> str:
        """Where the value is defined; empty where nothing has that name, or nobody said."""
        return self._sources.get(name, "")

    def place(self, name: str) -> str:
        """``file:line`` of the registration."""
        return self._places[name]

    def __getitem__(self, name: str) -> T:
        try:
            return self._values[name]
        except KeyError:
            raise RegistryError(f"no {self.kind} is called {name!r}{self._suggest(name)}") from None

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _suggest(self, name: str) -> str:
        known = sorted(self._known())
        near = difflib.get_close_matches(name, known, n=5)
        if near:
            return f"; the nearest of {len(known)} known: {', '.join(near)}"
        more = ", ..." if len(known) > _MOST_NAMED else ""
        return f"; {len(known)} are known: {', '.join(known[:_MOST_NAMED])}{more}" if known else "; none is registered"

    def _known(self) -> Collection[str]:
        return self._values


class DeferredRegistry(Registry[T]):
    """A registry of values that modules register, each imported when one of its names is asked for.

    Whoever asks for a value, or registers one, finds it complete: the modules of its name are imported before. Names
    are there without: ``in`` and listings, which give the deferred ones first, import nothing. Python's locks of
    modules let a thread wait for a module that another one imports.
    """

    def __init__(self, kind: str):
        super().__init__(kind)
        self._order: list[str] = []
        self._deferred: dict[str, tuple[str, ...]] = {}  # names whose modules may not all have been imported

    def defer(self, homes: Mapping[str, Sequence[str]]) -> None:
        """Names to the modules that make them: one that registers the name, and those that complete what it made."""
        for name, modules in homes.items():
            self._order.append(name)
            self._deferred[name] = tuple(modules)

    def loaded(self) -> list[T]:
        """The values that are here without importing anything."""
        return list(self._values.values())

    def load_all(self) -> None:
        """Import every module that has a name here."""
        for name in list(self._deferred):
            self._load(name)

    def _load(self, name: str) -> None:
        """Import the modules of *name*; not those behind one that this thread is importing just now."""
        for module in self._deferred.get(name, ()):
            if _is_being_imported(importlib.import_module(module)):
                return
        self._deferred.pop(name, None)

    def register(self, name: str, value: T, *, where: str = "", override: bool = False, source: str = "") -> None:
        self._load(name)
        super().register(name, value, where=where or caller_location(), override=override, source=source)

    def check_free(self, name: str, place: str, source: str = "") -> None:
        self._load(name)
        super().check_free(name, place, source)

    def get(self, name: str) -> T | None:
        if name in self._deferred:
            self._load(name)
        return super().get(name)

    def source(self, name: str) -> str:
        self._load(name)
        return super().source(name)

    def place(self, name: str) -> str:
        self._load(name)
        return super().place(name)

    def __getitem__(self, name: str) -> T:
        if name in self._deferred:
            self._load(name)
        return super().__getitem__(name)

    def __contains__(self, name: str) -> bool:
        return name in self._values or name in self._deferred

    def __iter__(self) -> Iterator[str]:
        return iter(list(dict.fromkeys([*(name for name in self._order if name in self), *self._values])))

    def __len__(self) -> int:
        return len({*self._values, *self._deferred})

    def _known(self) -> Collection[str]:
        return list(self)


def read_homes(table: Path, package: str) -> dict[str, list[str]]:
    """What :meth:`DeferredRegistry.defer` takes, from a text with a line for each module of *package*.

    ``op.nn.dense: nn.dense nn.matmul``: the module below the package, and its names. Where a name stands in several
    lines, the first module registers it and the others complete it.
    """
    homes: dict[str, list[str]] = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        module, _, names = line.partition(":")
        for name in names.split():
            homes.setdefault(name, []).append(f"{package}.{module}")
    return homes


def _is_being_imported(module: ModuleType) -> bool:
    """True within the import of *module*; a module that another thread imports is waited for instead."""
    return bool(getattr(module.__spec__, "_initializing", False))


GLOBAL_FUNCTIONS: DeferredRegistry[Callable[..., Any]] = DeferredRegistry("global function")


@overload
def register_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
def register_func(name: str, f: F | None = None, override: bool = False) -> F | Callable[[F], F]:
    """Register a global function, as a call or as a decorator.

    A function that is defined again at the same place replaces itself. Raises RegistryError when another has the name
    and *override* is false. Source: ``tvm.register_func``.
    """
    where = caller_location()

    def register(function: F) -> F:
        GLOBAL_FUNCTIONS.register(name, function, where=where, override=override, source=source_of(function))
        return function

    return register(f) if f is not None else register


@overload
def get_global_func(name: str, allow_missing: Literal[False] = False) -> Callable[..., Any]: ...  # whatever was put
@overload
def get_global_func(name: str, allow_missing: bool) -> Callable[..., Any] | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> Callable[..., Any] | None:
    """The global function *name*; None where it is missing and *allow_missing*, else RegistryError."""
    return GLOBAL_FUNCTIONS.get(name) if allow_missing else GLOBAL_FUNCTIONS[name]
