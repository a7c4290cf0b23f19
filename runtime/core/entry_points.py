"""Where registrations come from: packages' entry points, loaded once, on first use, and places in the source.

Two groups. ``byoc.backends`` is for the compiler: an entry point is named as the target is, and gives the backend's
class. ``byoc.runtime`` (:data:`RUNTIME`) is for what a saved artefact needs to run, where there is no compiler: an
entry point is named by what is asked for, a module's ``type_key``, a kernel table or a kind of device, and gives the
module's class, or whatever is registered when it is imported. A package that cannot be imported breaks nobody else's.

Source: the entry point specification of the Python Packaging User Guide.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import inspect
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType, FunctionType, MethodType, ModuleType

# The distribution's name, for messages that ask a user to install something: another project is called ``byoc`` on the
# package index.
DISTRIBUTION = "byoc-compiler"


def install_command(extra: str = "") -> str:
    """The shell command that installs byoc, with *extra* where one is named (quoted: ``[`` is special to shells).

    >>> install_command("opencl")
    "pip install 'byoc-compiler[opencl]'"
    """
    return f"pip install '{DISTRIBUTION}[{extra}]'" if extra else f"pip install {DISTRIBUTION}"


def version() -> str:
    """The version of the installed distribution.

    Raises importlib.metadata.PackageNotFoundError where byoc is run from a source tree that is not installed.
    """
    return importlib.metadata.version(DISTRIBUTION)


@dataclass(frozen=True)
class Loaded:
    """What the entry points of one name gave, and what broke, in words; neither where nobody brings the name.

    *broken* is what was raised when the package was imported, *mistake* a sentence of what its entry points say.
    """

    values: tuple[object, ...] = ()
    broken: str | None = None
    mistake: str | None = None

    @property
    def problem(self) -> str | None:
        """Why nothing was given, as a clause; None where nothing went wrong."""
        return self.mistake or (f"its package cannot be imported ({self.broken})" if self.broken else None)


class EntryPoints:
    """The entry points of *group*, which are read when a name is asked for; *what* is what they bring."""

    def __init__(self, group: str, what: str = "entry point"):
        self.group, self.what = group, what
        self._loaded: dict[str, Loaded] = {}
        self._loading = threading.local()  # the names that this thread is loading: a package may ask for its own

    def names(self) -> list[str]:
        """The names that installed packages bring."""
        return [entry.name for entry in importlib.metadata.entry_points(group=self.group)]

    def load(self, name: str) -> Loaded:
        """Import what brings *name*, once. What a package raises there is recorded, not raised."""
        if name not in self._loaded and name not in vars(self._loading):
            setattr(self._loading, name, True)
            try:
                self._loaded[name] = self._load(name)
            finally:
                delattr(self._loading, name)
        return self._loaded.get(name, Loaded())

    def _load(self, name: str) -> Loaded:
        entries = {entry.value: entry for entry in self._of(name)}
        if len(entries) > 1:
            return Loaded(mistake=self._clash(name, list(entries.values())))
        for entry in entries.values():
            try:
                return _loaded(entry)
            except Exception as error:  # a broken package of a vendor must not break the others
                return Loaded(broken=f"{type(error).__name__}: {error}")
        return Loaded()

    def _clash(self, name: str, entries: Sequence[importlib.metadata.EntryPoint]) -> str:
        """That several packages, or one of them twice, bring *name*."""
        packages = sorted({_package(entry) for entry in entries})
        named = sorted(f"{_package(entry)} ({entry.value})" for entry in entries)
        if len(packages) == 1:
            values = " and ".join(sorted(entry.value for entry in entries))
            return f"{packages[0]} brings the {self.what} {name!r} twice, as {values}; it can be one of them alone"
        others = [package for package in packages if package.split(" ")[0] != DISTRIBUTION]
        rest = f"uninstall {'one of them' if len(others) > 1 else others[0]}, or give its {self.what} another name"
        count = _COUNTS.get(len(packages), len(packages))
        return f"{count} packages bring the {self.what} {name!r}: {' and '.join(named)}; {rest}"

    def modules(self, name: str) -> list[str]:
        """The modules that the entry points of *name* stand in."""
        return [entry.value.partition(":")[0].strip() for entry in self._of(name)]

    def described(self, name: str) -> str | None:
        """What brings *name*, in words; None where nobody does."""
        return next((_entry_text(entry) for entry in self._of(name)), None)

    def gave(self, name: str) -> str | None:
        """What the package that brings *name* gave, in words; None where it gave nothing."""
        values = self.load(name).values
        return f"{self.described(name)} gives {kind_of(values[0])}" if values else None

    def package(self, name: str) -> str | None:
        """The distribution that brings *name*, as ``acme-byoc 1.2``; None for our own, or where nobody does."""
        found = [entry.dist for entry in self._of(name) if entry.dist is not None]
        return next((f"{d.name} {d.version}" for d in found if d.name != DISTRIBUTION), None)

    def _of(self, name: str) -> list[importlib.metadata.EntryPoint]:
        return [entry for entry in importlib.metadata.entry_points(group=self.group) if entry.name == name]


_COUNTS = {2: "two", 3: "three"}


def _loaded(entry: importlib.metadata.EntryPoint) -> Loaded:
    """What *entry* gives. Raises what importing its module raises."""
    written = entry.pattern.match(entry.value)
    if written is None:
        return Loaded(mistake=f"{_entry_text(entry)} is not of the form module:name")
    value: object = importlib.import_module(written["module"])
    for name in filter(None, (written["attr"] or "").split(".")):
        if not hasattr(value, name):
            near = difflib.get_close_matches(name, [n for n in dir(value) if not n.startswith("_")], n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            return Loaded(mistake=f"{_entry_text(entry)} names {name!r}, which is not there{hint}")
        value = getattr(value, name)
    return Loaded((value,))


def kind_of(value: object) -> str:
    """What *value* is, in words.

    >>> kind_of(1), kind_of(difflib), kind_of(int)
    ('1, of type int', 'the module difflib', 'the class int')
    """
    if isinstance(value, ModuleType):
        return f"the module {value.__name__}"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    return (
        f"{value!r}, of type {type(value).__name__}" if isinstance(value, (int, str)) else f"a {type(value).__name__}"
    )


def _entry_text(entry: importlib.metadata.EntryPoint) -> str:
    return f"the entry point '{entry.name} = {entry.value}' of {_package(entry)}"


def _package(entry: importlib.metadata.EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else "a package without a name"


RUNTIME = EntryPoints("byoc.runtime")


@functools.cache
def is_installed(package: str) -> bool:
    """Whether *package* (``acme-byoc 1.2``) is installed, in whatever version."""
    try:
        importlib.metadata.version(package.split(" ")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False
    return True


def advice(packages: tuple[str, ...]) -> str:
    """What to install of the *packages* that an artefact names, as the end of a sentence; empty where all are here."""
    missing = [package for package in packages if not is_installed(package)]
    return f"; install {', '.join(missing)}, with which it was made" if missing else ""


@functools.cache
def package_of(name: str) -> str | None:
    """The distribution that brings *name* to the runtime, as :meth:`EntryPoints.package`."""
    return RUNTIME.package(name)


# Where a function, a class or a registration stands in the source (file and qualified name; in a notebook the module's
# name for the file): registering again from the same place (a cell that runs twice, a module reloaded) replaces, from
# another place it is a clash.


def source_of(value: object) -> str:
    """The place of a function or a class (of an object: of its class), as ``file:qualified name``."""
    if isinstance(value, MethodType):
        value = value.__func__
    kind = value if isinstance(value, (type, FunctionType)) else type(value)
    file, name = _file_of(kind.__module__), kind.__qualname__
    if isinstance(kind, FunctionType) and "<lambda>" in name and file != kind.__module__:
        name = f"{name}:{kind.__code__.co_firstlineno}"  # a name that all lambdas of a place share
    return f"{file}:{name}"


def definition_of(value: object) -> str:
    """``file:line`` where a class (of an object: its class) is defined; its :func:`source_of` where no file has it."""
    kind = value if isinstance(value, type) else type(value)
    try:
        return f"{inspect.getsourcefile(kind)}:{inspect.getsourcelines(kind)[1]}"
    except (OSError, TypeError):
        return source_of(kind)


def caller_source(depth: int = 2) -> str:
    """The place of the code *depth* frames above this function."""
    frame: FrameType | None = inspect.currentframe()
    for _ in range(depth):
        frame = frame.f_back if frame is not None and frame.f_back is not None else frame
    assert frame is not None  # CPython has frames
    return f"{_file_of(str(frame.f_globals.get('__name__', '')))}:{frame.f_code.co_name}"


def _file_of(module: str) -> str:
    """The file of *module*; its name where it has none, as what is typed into a notebook."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else module
