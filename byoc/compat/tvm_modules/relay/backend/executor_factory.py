"""What ``relay.build`` gives: a library with the graph of its calls. Source: ``relay.backend.executor_factory``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from byoc.compat.tvm_modules.relay.backend import Executor
from byoc.compat.tvm_modules.relay.backend.storage import with_storage
from byoc.compat.tvm_modules.runtime import LoadedLibrary
from byoc.ir.module import IRModule
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.library import Library


class ExecutorFactoryModule(LoadedLibrary):
    """A built module; it unpacks into the executor's configuration, the library and the parameters."""

    def __init__(self, library: Library, mod: IRModule, mod_name: str, executor: Executor, target: object):
        super().__init__(library)
        library.report["mod_name"] = mod_name
        self.ir_mod, self.libmod_name, self.executor, self.target = mod, mod_name, executor, target
        self.params: dict[str, NDArray] = {}  # constants are in the library: none is left to set
        self.function_metadata: Mapping[str, object] = {}

    @property
    def lib(self) -> LoadedLibrary:
        """The library."""
        return self.get_lib()

    @property
    def module(self) -> LoadedLibrary:
        """The library."""
        return self.get_lib()

    def get_lib(self) -> LoadedLibrary:
        """The library of the functions, which makes executors too."""
        return LoadedLibrary(self.library)

    def get_params(self) -> dict[str, NDArray]:
        """The parameters that are left to set: none, for the library holds its constants."""
        return self.params

    def get_executor_config(self) -> str | None:
        """What the executor is given beside the library."""
        raise NotImplementedError

    def get_devices(self) -> list[str]:
        """The names of the devices that the library is for."""
        return ["cpu"]

    def __iter__(self) -> Iterator[object]:
        return iter((self.get_executor_config(), self.get_lib(), self.get_params()))


class GraphExecutorFactoryModule(ExecutorFactoryModule):
    """A built module for the graph executor. Source: ``GraphExecutorFactoryModule``."""

    @property
    def graph_json(self) -> str:
        """The graph in the executor's JSON."""
        return self.get_graph_json()

    graph_json_str = graph_json

    def get_graph_json(self) -> str:
        """The graph in the executor's JSON."""
        return json.dumps(with_storage(self.library.graph_json))

    def get_executor_config(self) -> str:
        return self.get_graph_json()


class AOTExecutorFactoryModule(ExecutorFactoryModule):
    """A built module for the ahead-of-time executor, which needs no graph beside it."""

    def get_executor_config(self) -> None:
        return None


FACTORY_CLASSES: dict[str, type[ExecutorFactoryModule]] = {
    "graph": GraphExecutorFactoryModule,
    "aot": AOTExecutorFactoryModule,
}
