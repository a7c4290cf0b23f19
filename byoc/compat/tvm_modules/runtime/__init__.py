"""What ``tvm.runtime`` has beside byoc's runtime: loading libraries, and conversions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import numpy as np

from byoc.compat.tvm_modules.ir.container import Array, Map
from byoc.compat.tvm_modules.tir import const
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.dims import Any
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.transform import Pass, PassContext
from byoc.ir.types import Type
from byoc.runtime.container import ADT, String
from byoc.runtime.library import Library, load
from byoc.runtime.module import Module, PackedFunction
from byoc.runtime.ndarray import NDArray


class LoadedLibrary:
    """A library as TVM's users see a module: functions by name, and ``lib["default"](device)`` for an executor."""

    type_key = "GraphExecutorFactory"

    def __init__(self, library: Library):
        self.library = library

    @property
    def imported_modules(self) -> list[Module]:
        """The modules below the root: the host's and the regions'."""
        return list(self.library.module.imports)

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        """A function of the library, or None."""
        return self.library.module.get_function(name, True)

    def get_source(self, fmt: str = "") -> str:
        """The sources of all modules that have one."""
        return "\n".join(text for m in self.library.module.walk() if (text := m.get_source(fmt)))

    def export_library(self, file_name: str | os.PathLike[str], *args: object, **options: object) -> None:
        """Write the artefact to *file_name*; a C compiler's options have no meaning here and are not used.

        Raises UserError when the file cannot be written or a vendor's module cannot be saved.
        """
        self.library.save(file_name)

    save = export_library

    def __getitem__(self, name: str) -> object:
        if name in FACTORIES:
            return FACTORIES[name](self.library)
        return self.library.module[name]


# function of a factory module -> what makes it of a library; filled by relay.build_module
FACTORIES: dict[str, Callable[[Library], object]] = {}


def load_module(path: str | os.PathLike[str], fmt: str = "") -> LoadedLibrary:
    """The library that ``export_library`` wrote. Raises ArtifactError for a damaged file. Source: ``tvm.runtime``."""
    return LoadedLibrary(load(path))


def enabled(target: str) -> bool:
    """Whether code for *target* can be made here. Source: ``tvm.runtime.enabled``."""
    return target.split()[0] in ("llvm", "c", "cpu", "graph_executor")


def convert(value: object, span: object | None = None) -> object:
    """*value* as TVM's runtime would hold it: numbers with a dtype, containers, arrays. Source: ``runtime.convert``.

    Whatever is an object of the compiler already, or a function, is given back as it is.
    """
    if isinstance(value, str):
        return String(value)
    if type(value) in (bool, int, float):
        return const(value)
    if isinstance(value, np.ndarray):
        return NDArray(value)
    if isinstance(value, (list, tuple)):
        return Array(convert(v) for v in value)
    if isinstance(value, Mapping) and not isinstance(value, DictAttrs):
        return Map({k: convert(v) for k, v in value.items()})
    return value


class _Objects(type):
    """A class that every object of the compiler and of the runtime counts as."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _OBJECTS)


class Object(metaclass=_Objects):
    """The root of TVM's objects: expressions, types, attributes, modules, arrays. Source: ``tvm.runtime.Object``."""


_OBJECTS = (RelayExpr, Type, Attrs, DictAttrs, IRModule, Any, Pass, PassContext, NDArray, ADT, String)


__all__ = ["ADT", "LoadedLibrary", "Object", "String", "const", "convert", "enabled", "load_module"]
