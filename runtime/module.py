"""The tree of runtime modules: code behind named functions, with children that it imports.

A function of a module takes NDArrays: the inputs, then the outputs, which it fills ("destination passing"). A module
saves itself as named members (bytes) and is loaded from them by its type key; nothing is pickled.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from byoc.runtime.errors import ArtifactError, UnavailableError, UserError
from byoc.runtime.ndarray import NDArray

PackedFunction = Callable[..., object]
Members = Mapping[str, bytes | memoryview]


class Module:
    """The root of runtime modules. Source: ``tvm.runtime.Module``.

    A subclass sets ``type_key`` and gives ``symbols``, ``get_function``, ``get_source``, ``save`` and ``load``.
    """

    type_key = ""
    symbols: Sequence[str] = ()  # the names of the functions of this module itself

    def __init__(self) -> None:
        self._imports: list[Module] = []

    @property
    def imports(self) -> Sequence[Module]:
        """The modules below this one."""
        return tuple(self._imports)

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

    def initialize(self, symbol: str, constants: Sequence[NDArray]) -> None:
        """Give *symbol* its constants; called once before its first use, by the metadata module."""

    def unavailable(self) -> str | None:
        """One sentence when this module cannot run on this machine (no device, another processor), else None."""
        return None

    def save(self) -> dict[str, bytes]:
        """The module's own content (imports aside) as members by relative file name."""
        raise NotImplementedError

    @classmethod
    def load(cls, members: Members) -> Module:
        """The module from what :meth:`save` gave. Raises ArtifactError when a member is missing or wrong."""
        raise NotImplementedError

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


LOADERS: dict[str, str] = {
    "c": "byoc.runtime.dso.module:DsoModule",
    "json": "byoc.runtime.json.module:JsonModule",
    "opencl": "byoc.runtime.opencl.module:OpenCLModule",
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
        return getattr(importlib.import_module(module_name), class_name)
    except ImportError as error:
        raise UnavailableError(
            f"modules of type {type_key!r} cannot be loaded here ({error}): install {error.name or module_name}"
        ) from error
