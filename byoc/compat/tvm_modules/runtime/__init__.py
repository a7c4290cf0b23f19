"""What ``tvm.runtime`` has beside byoc's runtime: loading libraries, and conversions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from byoc.compat.tvm_modules.ir.container import Array, Map
from byoc.compat.tvm_modules.relay.backend.storage import with_storage
from byoc.compat.tvm_modules.runtime.graph_inputs import GraphInputs
from byoc.compat.tvm_modules.tir import const
from byoc.ir.attrs import Attrs, DictAttrs
from byoc.ir.dims import Any
from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.passes.transform import Pass, PassContext
from byoc.ir.types import Type
from byoc.runtime.artefact.artifact import read_artifact
from byoc.runtime.core.container import ADT, String
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.library import Library
from byoc.runtime.loading import load
from byoc.runtime.module_tree import load_module_tree
from byoc.runtime.modules.module import Module, PackedFunction


class LoadedLibrary(Module):
    """A library as TVM's users see a module: functions by name, and ``lib["default"](device)`` for an executor."""

    type_key = "GraphExecutorFactory"

    def __init__(self, library: Library):
        super().__init__()
        self.library = library

    @property
    def imports(self) -> list[Module]:
        """The modules below the root: the host's and the regions'."""
        return list(self.library.module.imports)

    @property
    def mod_name(self) -> str:
        """The name under which executors are made."""
        return str(self.library.report.get("mod_name", "default"))

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        """What makes an executor on devices (``default``, or the module's name), a function of the library, or None."""
        if name in ("default", self.mod_name):
            return lambda *devices: GraphFunctions(self.library.graph_executor())
        if name in _FACTORY_FUNCTIONS:
            return lambda *args: _FACTORY_FUNCTIONS[name](self)
        return self.library.module.get_function(name, True)

    def get_source(self, fmt: str = "") -> str:
        """The sources of all modules that have one."""
        return "\n".join(text for m in self.library.module.walk() if (text := m.get_source(fmt)))

    def export_library(self, file_name: str | os.PathLike[str], *args: object, **options: object) -> None:
        """Write the artefact to *file_name*; a C compiler's options have no meaning here and are not used.

        Raises UserError when the file cannot be written or a vendor's module cannot be saved.
        """
        self.library.save(file_name)

    def save(self, file_name: str | os.PathLike[str], fmt: str = "") -> None:  # type: ignore[override]
        """As :meth:`export_library`."""
        self.export_library(file_name)


_FACTORY_FUNCTIONS: dict[str, Callable[[LoadedLibrary], object]] = {
    "get_graph_json": lambda loaded: json.dumps(with_storage(loaded.library.graph_json)),
    "debug_create": lambda loaded: GraphFunctions(loaded.library.graph_executor()),
    "list_module_names": lambda loaded: Array([loaded.mod_name]),
}


class GraphFunctions(Module):
    """An executor as TVM's module: ``set_input``, ``run`` and ``get_output`` by name.

    Inputs are converted and need not be set, as Relay has it; the executor itself is as strict as any of byoc's.
    """

    type_key = "GraphExecutor"
    symbols = (
        "get_input",
        "get_num_inputs",
        "get_num_outputs",
        "get_output",
        "run",
        "run_from_inputs",
        "set_input",
        "set_input_zero_copy",
    )

    def __init__(self, executor: GraphExecutor):
        super().__init__()
        self.executor = executor
        self.inputs = GraphInputs(executor)
        self._functions: dict[str, PackedFunction] = {
            "get_input": self.inputs.get,
            "set_input": self.inputs.set,
            "set_input_zero_copy": self.inputs.share,
            "run": self.run,
            "run_from_inputs": self._run_from_inputs,
            "get_output": executor.get_output,
            "get_num_inputs": executor.get_num_inputs,
            "get_num_outputs": executor.get_num_outputs,
        }

    def get_function(self, name: str, query_imports: bool = False) -> PackedFunction | None:
        return self._functions.get(name)

    def run(self) -> None:
        """Run the graph; an input that was never set is zeros where its shape is known, else raises InputError."""
        self.inputs.fill()
        self.executor.run()

    def _run_from_inputs(self, device_type: int, device_id: int, *inputs: object) -> list[NDArray]:
        """Set inputs, given as names and values in turn, run, and copy the outputs."""
        for name, value in zip(inputs[::2], inputs[1::2], strict=True):
            self.inputs.set(name, value)  # type: ignore[arg-type]
        self.run()
        return [NDArray(self.executor.get_output(k).numpy().copy()) for k in range(self.executor.get_num_outputs())]


def load_module(path: str | os.PathLike[str], fmt: str = "") -> Module:
    """The library, the executable or the modules that ``export_library`` wrote.

    Raises ArtifactError for a damaged file. Source: ``tvm.runtime.load_module``.
    """
    if "tree" in read_artifact(Path(path)).manifest:
        return load_module_tree(path)
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
    if isinstance(value, (bool, int, float)) and type(value) in (bool, int, float):
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


_OBJECTS = (RelayExpr, Type, Attrs, DictAttrs, IRModule, Any, Pass, PassContext, NDArray, ADT, String, Module)


__all__ = ["ADT", "GraphFunctions", "LoadedLibrary", "Object", "String", "const", "convert", "enabled", "load_module"]
