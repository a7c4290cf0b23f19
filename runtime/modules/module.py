"""The tree of runtime modules: code behind named functions, with children that it imports.

A function of a module takes NDArrays: the inputs, then the outputs, which it fills ("destination passing"). A module
saves itself as named members (bytes) and is loaded from them by its type key; nothing is pickled.
"""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Protocol

from byoc.runtime.artefact.artifact import write_artifact
from byoc.runtime.core.device import HardwareLevel
from byoc.runtime.core.entry_points import RUNTIME, package_of
from byoc.runtime.core.errors import ByocError, UnavailableError, UserError, vendors_text
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.ndarray import PackedFunction as PackedFunction
from byoc.runtime.files.weights import write_weights
from byoc.runtime.modules.on_device import OnDevice

if TYPE_CHECKING:
    from typing_extensions import Self

    from byoc.runtime.core.benchmark import BenchmarkResult
    from byoc.runtime.core.signature import TensorSpec
    from byoc.runtime.graph.executor_base import Executor
    from byoc.runtime.graph.graph import Graph

Members = Mapping[str, bytes | memoryview]
# what ``unavailable`` gives
SENTENCE_OR_NONE = "one sentence that says what is missing on this machine, or None where it can work"


class Root(Protocol):
    """What an executor of a whole graph asks of the module at the root of its library."""

    def __getitem__(self, name: str) -> PackedFunction:
        """The function *name*. Raises UserError where there is none."""

    def ensure_initialized(self, symbol: str) -> None:
        """Give *symbol* its constants unless it has them."""


class Module(OnDevice):
    """The root of runtime modules. Source: ``tvm.runtime.Module``.

    A subclass sets ``type_key`` and gives ``symbols``, ``get_function``, ``get_source``, ``save`` and ``load``. A saved
    one is found in a new process by the entry point of the group ``byoc.runtime`` that is called as its ``type_key``.

    A vendor's module is loaded by ``load``, asked whether it is ``unavailable``, given each symbol's constants once
    (``initialize``, also where there are none; read-only arrays, which it may keep), then asked for its functions,
    which any number of executors share. A function is called with arrays in C order, aligned for their dtypes, the
    inputs (read-only) before the outputs, which it fills, every element, and returns None; it must not keep arrays
    beyond the call, but for those that it was bound to (``bind``). It may be called from any thread; by several at once
    only where ``thread_safe`` is True, else one thread at a time is in modules of that type. The whole contract is one
    page: ``docs/guides/contract.md``.
    """

    type_key = ""
    symbols: Sequence[str] = ()  # the names of the functions of this module itself
    can_start = False  # whether its functions have ``start`` (``region/call.py``) and work while the host goes on
    constant_arrays: Mapping[str, NDArray] = MappingProxyType({})  # the arrays of ``constants()``, by name, until saved
    thread_safe = False  # whether its functions may run on several threads at once; else one thread of a type at a time
    stands_for: Mapping[str, str] = {}  # of these, those that compute the same as another module's: its symbol

    _imports: list[Module]

    def __new__(cls, *args: object, **options: object) -> Self:
        """A module without others below it, whether or not a vendor's class calls ``Module.__init__``."""
        module = super().__new__(cls)
        module._imports = []
        return module

    @property
    def brought_by(self) -> Sequence[str]:
        """The names of the entry points (``core/entry_points.py``) that bring what loads this module."""
        return (self.type_key,)

    @property
    def imports(self) -> Sequence[Module]:
        """The modules below this one."""
        return tuple(self._imports)

    @property
    def imported_modules(self) -> list[Module]:
        """The modules below this one, as TVM names them."""
        return list(self.imports)

    def import_module(self, module: Module) -> None:
        """Hang *module* below this one."""
        self._imports.append(module)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        """The function *name*, or None where this module (and with *query_imports* its imports) has none."""
        if query_imports:
            for module in self._imports:
                found = module.get_function(name, True)
                if found is not None:
                    return found
        return None

    def implements_function(self, func_name: str, query_imports: bool = False) -> bool:
        """Whether there is a function of that name. Source: ``Module.implements_function``."""
        return self.get_function(func_name, query_imports) is not None

    def __getitem__(self, name: str) -> PackedFunction:
        function = self.get_function(name, query_imports=True)
        if function is None:
            known = ", ".join(s for m in self.walk() for s in m.symbols)
            raise UserError(f"the module has no function {name!r}; it has {known or 'none'}")
        return function

    def get_source(self, fmt: str = "") -> str:
        """The source of the module as text; empty where it has none."""
        return ""

    def constants(self) -> Mapping[str, Sequence[str]]:
        """For each symbol the names of the constants that it must be initialised with, in order."""
        return {}

    def constant_specs(self, symbol: str) -> Sequence[TensorSpec] | None:
        """What the constants of *symbol* must be, in order; None where the module does not say."""
        return None

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Give *symbol* its constants; called once before its first use, by the metadata module."""

    def unavailable(self) -> str | None:
        """One sentence when this module cannot run on this machine (no device, another processor), else None."""
        return None

    def level(self) -> HardwareLevel:
        """How far its functions get on this machine: run on the device, run emulated, or compiled and no more."""
        return HardwareLevel.REAL

    def whole_executor(self, graph: Graph, root: Root, threads: int | None) -> Executor | None:
        """An executor that runs all of *graph* by one call, or None where this module has no function for that."""
        return None

    def save(self) -> dict[str, bytes]:
        """The module's own content (imports aside) as members by relative file name: bytes, or text."""
        raise NotImplementedError

    @classmethod
    def load(cls, members: Members) -> Module:
        """The module from what :meth:`save` gave. Raises ArtifactError when a member is missing or wrong."""
        raise NotImplementedError

    def arrays(self) -> Mapping[str, NDArray]:
        """The arrays that are saved beside the members: the constants of a module that owns them."""
        return {}

    @classmethod
    def restore(cls, members: Members, arrays: Mapping[str, NDArray], below: Sequence[Module]) -> Module:
        """The module from its members, its arrays and the modules below it. Raises ArtifactError for damaged ones."""
        module = cls.load(members)
        for child in below:
            module.import_module(child)
        return module

    def export_library(self, file_name: str | os.PathLike[str], *args: object, **options: object) -> None:
        """Write this module and all below it to *file_name*, from which ``load_module_tree`` reads them.

        A C compiler's options have no meaning here and are not used. Raises UserError when the file cannot be written
        or a module cannot be saved. Source: ``Module.export_library``.
        """
        manifest, members = tree_members(self)
        write_artifact(Path(file_name), manifest, members)

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        cache_flush_bytes: int = 0,
        f_preproc: str = "",
    ) -> Callable[..., BenchmarkResult]:
        """A function that times ``self[func_name]`` on its arguments. Source: ``Module.time_evaluator``."""
        from byoc.runtime.core.benchmark import benchmark

        function = self[func_name]

        def evaluate(*args: object) -> BenchmarkResult:
            return benchmark(
                lambda: function(*args), repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown
            )

        return evaluate

    def walk(self) -> Iterator[Module]:
        """This module and all below it, parents first."""
        yield self
        for module in self._imports:
            yield from module.walk()

    def tree(self) -> str:
        """The hierarchy as indented text: type keys and symbols."""
        lines: list[str] = []
        stack: list[tuple[Module, int]] = [(self, 0)]
        while stack:
            module, depth = stack.pop()
            lines.append(f"{'  ' * depth}{module.type_key}: {', '.join(module.symbols) or '-'}")
            stack.extend((m, depth + 1) for m in reversed(module.imports))
        return "\n".join(lines)


def tree_members(root: Module) -> tuple[dict[str, object], dict[str, bytes]]:
    """A tree of modules as a manifest, which lists them parents first, and members.

    Raises UserError for a module that cannot be saved, or whose constants nothing in the tree owns.
    """
    entries: list[dict[str, object]] = []
    members: dict[str, bytes] = {}
    pending: list[tuple[Module, int | None]] = [(root, None)]
    while pending:
        module, parent = pending.pop()
        place = f"tree/{len(entries)}_{module.type_key}"
        for name, data in saved_members(module).items():
            members[f"{place}/{name}"] = data
        arrays = module.arrays()
        if arrays:
            members[f"{place}/{ARRAYS_MEMBER}"] = write_weights(arrays)
        pending.extend((child, len(entries)) for child in reversed(module.imports))
        entry = {"type_key": module.type_key, "path": place, "parent": parent, "symbols": list(module.symbols)}
        entries.append({**entry, **packages_of(module)})
    needed = [symbol for module in root.walk() for symbol, names in module.constants().items() if names]
    if needed and not any(module.arrays() for module in root.walk()):
        raise UserError(f"the constants of {needed[0]} are not in the module: export the library that holds it")
    return {"kind": "modules", "tree": entries, "requires": sorted({str(e["type_key"]) for e in entries})}, members


def saved_members(module: Module) -> Mapping[str, bytes]:
    """What *module* saves, text as UTF-8. Raises UserError for a class without type key or save, and for no members."""
    where = f"the module {type(module).__name__} of {', '.join(module.symbols)}"
    if not module.type_key:
        raise UserError(f"{where} cannot be saved: its class has no type_key, by which it would be loaded")
    try:
        found: object = module.save()
    except NotImplementedError as error:
        raise UserError(f"{where} cannot be saved: its class has no method save") from error
    except ByocError:
        raise
    except Exception as error:  # whatever a vendor's code raises
        raise UserError(f"{where} cannot be saved: its save raised {vendors_text(error)}") from error
    if not isinstance(found, Mapping):
        raise UserError(
            f"{where} cannot be saved: its save gave a {type(found).__name__}, expected a dictionary of bytes by the "
            'names of files, as in {"program.json": text.encode()}'
        )
    return {member_name(name, where): _content(data, name, where) for name, data in found.items()}


def member_name(name: object, where: str) -> str:
    """The relative *name* of a file. Raises UserError for what leads out of the module's folder."""
    parts = name.split("/") if isinstance(name, str) else [""]
    if not all(parts) or {".", ".."} & set(parts) or "\\" in str(name) or not str(name).isprintable():
        raise UserError(
            f"{where} cannot be saved: it names a member {name!r}, expected a file's relative name, with / between its "
            "parts"
        )
    return str(name)


def _content(data: object, name: object, where: str) -> bytes:
    if isinstance(data, str):
        return data.encode()
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    raise UserError(f"{where} cannot be saved: its member {name!r} is a {type(data).__name__}, expected bytes or text")


def packages_of(module: Module) -> dict[str, list[str]]:
    """The installed packages that bring what loads *module*, as a manifest lists them: none where byoc itself does."""
    names = [name for name in module.brought_by if name not in OWN]
    packages = [package for name in names if (package := package_of(name)) is not None]
    return {"packages": packages} if packages else {}


def members_below(members: Members, folder: str) -> dict[str, bytes | memoryview]:
    """The members in *folder*, by their names in it."""
    return {name[len(folder) + 1 :]: data for name, data in members.items() if name.startswith(folder + "/")}


ARRAYS_MEMBER = "arrays.safetensors"

LOADERS: dict[str, str | type[Module]] = {
    "VMExecutable": "byoc.runtime.vm.executable:ExecutableModule",
    "c": "byoc.runtime.dso.module:DsoModule",
    "control": "byoc.runtime.control:ControlModule",
    "json": "byoc.runtime.json.module:JsonModule",
    "kernels": "byoc.runtime.json.kernels_module:KernelsModule",
    "metadata": "byoc.runtime.modules.metadata:MetadataModule",
    "opencl": "byoc.runtime.opencl.module:OpenCLModule",
    "origin": "byoc.runtime.origin:OriginModule",
    "packed_c": "byoc.runtime.dso.packed_module:PackedModule",
}

OWN = frozenset(LOADERS)  # the types of byoc's own modules


def register_module_loader(type_key: str, location: str | type[Module], *, override: bool = False) -> None:
    """Say that modules of *type_key* are loaded by *location*: ``package.module:Class``, or the class itself.

    A class from the same place takes that of the first, as when a notebook's cell runs again, with *override* one from
    another place too. Raises UserError when the key is byoc's or taken otherwise, or when what is given is no module
    that can be loaded, run and saved; of a location that is seen when it is imported.
    """
    if not isinstance(location, str):
        check_module_class(type_key, location)
    elif not all(location.partition(":")):
        raise UserError(f"module type {type_key!r}: its location is {location!r}, expected 'package.module:Class'")
    if type_key in LOADERS:
        from byoc.runtime.modules.type_keys import check_key

        check_key(type_key, LOADERS[type_key], location, override, type_key in OWN)
    LOADERS[type_key] = location


def check_module_class(type_key: str, kind: object) -> None:
    """Raises UserError unless *kind* is a class of modules with what loading, running and saving one calls."""
    if not (isinstance(kind, type) and issubclass(kind, Module)):
        raise UserError(f"module type {type_key!r}: expected a class made of byoc.runtime.Module, got {kind!r}")
    missing = [text for names, text in _NEEDED.items() if all(_is_inherited(kind, name) for name in names)]
    if missing:
        raise UserError(f"module type {type_key!r}: {kind.__name__} has no {'; no '.join(missing)}: write it")


_NEEDED = {
    ("get_function",): "get_function(self, name, query_imports=False), which gives what runs a symbol",
    ("save",): "save(self), which gives its content as bytes by name",
    ("load", "restore"): "class method load(cls, members), which makes it of what save gave",
}


def _is_inherited(kind: type[Module], name: str) -> bool:
    """Whether *kind* has no method *name* but that of every module, or one of objects where the class is asked."""
    found = next((vars(base)[name] for base in kind.__mro__[: kind.__mro__.index(Module)] if name in vars(base)), None)
    of_object = getattr(getattr(found, "__code__", None), "co_argcount", 0) > 1  # and no class method
    return found is None or (of_object and name in ("load", "restore"))


def module_class(type_key: str) -> type[Module]:
    """The class that loads modules of *type_key*, imported on first use; an installed package may bring it.

    Raises UnavailableError for a key that nobody brings, and when a package that the class imports is missing.
    """
    if type_key not in LOADERS:
        _load_brought(type_key)
    if not isinstance(location := LOADERS[type_key], str):
        return location
    module_name, class_name = location.split(":")
    try:
        result: type[Module] = operator.attrgetter(class_name)(importlib.import_module(module_name))
    except ImportError as error:
        name = error.name or module_name
        advice = "byoc is installed without that part" if name.startswith("byoc.") else f"install {name}"
        raise UnavailableError(f"modules of type {type_key!r} cannot be loaded here ({error}): {advice}") from error
    check_module_class(type_key, result)
    return result


def _load_brought(type_key: str) -> None:
    """Register what an installed package brings for *type_key*. Raises as :func:`module_class`."""
    loaded = RUNTIME.load(type_key)
    for value in loaded.values:
        for kind in vars(value).values() if isinstance(value, ModuleType) else (value,):
            if isinstance(kind, type) and issubclass(kind, Module) and kind.type_key == type_key:
                register_module_loader(type_key, kind)
    if type_key in LOADERS:
        return
    if (gave := RUNTIME.gave(type_key)) or loaded.problem:
        why = loaded.problem or f"{gave}, expected the class with that type_key, or the module that has it"
        raise UnavailableError(f"modules of type {type_key!r} cannot be loaded here: {why}")
    from byoc.runtime.modules.type_keys import unknown_type

    raise UnavailableError(unknown_type(type_key, LOADERS, Module))
