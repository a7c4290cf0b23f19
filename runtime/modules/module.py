"""The tree of runtime modules: code behind named functions, with children that it imports.

A function of a module takes NDArrays: the inputs, then the outputs, which it fills ("destination passing"). A module
saves itself as named members (bytes) and is loaded from them by its type key; nothing is pickled.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from byoc.runtime.artefact.artifact import write_artifact
from byoc.runtime.core.benchmark import BenchmarkResult, benchmark
from byoc.runtime.core.errors import ArtifactError, UnavailableError, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.packed_function import PackedFunction as PackedFunction
from byoc.runtime.files.weights import write_weights

if TYPE_CHECKING:
    from byoc.runtime.core.signature import TensorSpec
    from byoc.runtime.graph.executor_base import Executor
    from byoc.runtime.graph.graph import Graph

Members = Mapping[str, bytes | memoryview]


class Root(Protocol):
    """What an executor of a whole graph asks of the module at the root of its library."""

    def __getitem__(self, name: str) -> PackedFunction:
        """The function *name*. Raises UserError where there is none."""

    def ensure_initialized(self, symbol: str) -> None:
        """Give *symbol* its constants unless it has them."""


class Module:
    """The root of runtime modules. Source: ``tvm.runtime.Module``.

    A subclass sets ``type_key`` and gives ``symbols``, ``get_function``, ``get_source``, ``save`` and ``load``.
    """

    type_key = ""
    symbols: Sequence[str] = ()  # the names of the functions of this module itself
    can_start = False  # whether its functions have ``start`` (``region/call.py``) and work while the host goes on
    stands_for: Mapping[str, str] = {}  # of these, those that compute the same as another module's: its symbol

    def __init__(self) -> None:
        self._imports: list[Module] = []

    @property
    def imports(self) -> Sequence[Module]:
        """The modules below this one."""
        return tuple(self._imports)

    @property
    def imported_modules(self) -> list[Module]:
        """The modules below this one. Source: ``Module.imported_modules``."""
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
        """What the constants of *symbol* must be, in order; None where the module does not tell."""
        return None

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Give *symbol* its constants; called once before its first use, by the metadata module."""

    def unavailable(self) -> str | None:
        """One sentence when this module cannot run on this machine (no device, another processor), else None."""
        return None

    def whole_executor(self, graph: Graph, root: Root, threads: int | None) -> Executor | None:
        """An executor that runs all of *graph* by one call, or None where this module has no function for that."""
        return None

    def save(self) -> dict[str, bytes]:
        """The module's own content (imports aside) as members by relative file name."""
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
        symbols = list(module.symbols)
        entries.append({"type_key": module.type_key, "path": place, "parent": parent, "symbols": symbols})
    needed = [symbol for module in root.walk() for symbol, names in module.constants().items() if names]
    if needed and not any(module.arrays() for module in root.walk()):
        raise UserError(f"the constants of {needed[0]} are not in the module: export the library that holds it")
    return {"kind": "modules", "tree": entries, "requires": sorted({str(e["type_key"]) for e in entries})}, members


def saved_members(module: Module) -> Mapping[str, bytes]:
    """What *module* saves. Raises UserError for one whose class says no type key, or no way to save it."""
    where = f"the module {type(module).__name__} of {', '.join(module.symbols)}"
    if not module.type_key:
        raise UserError(f"{where} cannot be saved: its class has no type_key, by which it would be loaded")
    try:
        return module.save()
    except NotImplementedError as error:
        raise UserError(f"{where} cannot be saved: its class has no method save") from error


def members_below(members: Members, folder: str) -> dict[str, bytes | memoryview]:
    """The members in *folder*, by their names in it."""
    return {name[len(folder) + 1 :]: data for name, data in members.items() if name.startswith(folder + "/")}


ARRAYS_MEMBER = "arrays.safetensors"

LOADERS: dict[str, str] = {
    "VMExecutable": "byoc.runtime.vm.executable:ExecutableModule",
    "c": "byoc.runtime.dso.module:DsoModule",
    "json": "byoc.runtime.json.module:JsonModule",
    "metadata": "byoc.runtime.modules.metadata:MetadataModule",
    "opencl": "byoc.runtime.opencl.module:OpenCLModule",
    "origin": "byoc.runtime.origin:OriginModule",
}


def register_module_loader(type_key: str, location: str) -> None:
    """Say that modules of *type_key* are loaded by the class at ``package.module:Class``.

    Raises UserError when the key is taken by another class.
    """
    if LOADERS.setdefault(type_key, location) != location:
        raise UserError(f"module type {type_key!r} is loaded by {LOADERS[type_key]}; {location} must take another key")


def module_class(type_key: str) -> type[Module]:
    """The class that loads modules of *type_key*, imported on first use.

    Raises ArtifactError for an unknown key, UnavailableError when a package that the class imports is missing.
    """
    if type_key not in LOADERS:
        raise ArtifactError(
            f"nothing here loads modules of type {type_key!r}; known: {', '.join(LOADERS)}; "
            "import the vendor's runtime package first"
        )
    module_name, class_name = LOADERS[type_key].split(":")
    try:
        result: type[Module] = getattr(importlib.import_module(module_name), class_name)
        return result
    except ImportError as error:
        raise UnavailableError(
            f"modules of type {type_key!r} cannot be loaded here ({error}): install {error.name or module_name}"
        ) from error
