"""``GraphModule``: runs what ``relay.build`` gives. Source: ``tvm.contrib.graph_executor``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from byoc.compat.tvm_modules.relay.build_module import ExecutorFactory, GraphFunctions
from byoc.compat.tvm_modules.runtime import LoadedLibrary
from byoc.errors import UserError
from byoc.runtime.device import Device
from byoc.runtime.graph_executor import Graph, GraphExecutor
from byoc.runtime.library import Library
from byoc.runtime.module import Module
from byoc.runtime.ndarray import NDArray
from byoc.runtime.params import load_param_dict


class GraphModule:
    """An executor with TVM's calls; inputs keep their value from run to run."""

    def __init__(self, module: GraphFunctions):
        if not isinstance(module, GraphFunctions):
            raise UserError('GraphModule takes what lib["default"](device) gives, or use graph_executor.create')
        self.module = module
        self._executor: GraphExecutor = module.executor

    def set_input(self, key: str | int | None = None, value: object = None, **params: object) -> None:
        """Set one input by name or position, and those of *params*; names in it that the graph lacks are passed over.

        Raises InputError for a *key* that the graph lacks.
        """
        if key is not None:
            self._executor.set_input(key, value)
        names = self._names()
        for name, array in params.items():
            if name in names:
                self._executor.set_input(name, array)

    def run(self, **input_dict: object) -> None:
        """Run the graph, with *input_dict* set first. Raises InputError when an input is missing or does not fit."""
        self.set_input(**input_dict)
        self._executor.run()

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """Output *index* of the last run, or *out* with it copied in."""
        result = self._executor.get_output(index)
        return NDArray(result.numpy().copy()) if out is None else out.copyfrom(result)

    def get_num_outputs(self) -> int:
        """How many outputs the graph has."""
        return self._executor.get_num_outputs()

    def get_num_inputs(self) -> int:
        """How many inputs the graph has."""
        return self._executor.get_num_inputs()

    def get_input_index(self, name: str) -> int:
        """The position of an input, or -1."""
        names = self._names()
        return names.index(name) if name in names else -1

    def get_input_info(self) -> tuple[dict[str, tuple[object, ...]], dict[str, str]]:
        """The shapes and the dtypes of the inputs, by name."""
        graph = self._executor.graph
        specs = [graph.specs[node.outputs[0]] for node in graph.inputs]
        return {s.name: tuple(s.shape) for s in specs}, {s.name: s.dtype for s in specs}

    def load_params(self, params_bytes: bytes) -> None:
        """Set the inputs that ``save_param_dict`` wrote."""
        self.set_input(**load_param_dict(params_bytes))

    def __getitem__(self, name: str) -> object:
        return getattr(self, name)

    def _names(self) -> list[str]:
        return [node.name for node in self._executor.graph.inputs]


def create(
    graph_json_str: str | Mapping[str, object] | Graph,
    libmod: Module | Library | ExecutorFactory | LoadedLibrary,
    device: Device | Sequence[Device],
) -> GraphModule:
    """An executor of a graph in JSON over the functions of a library. Source: ``graph_executor.create``."""
    data = json.loads(graph_json_str) if isinstance(graph_json_str, str) else graph_json_str
    library = libmod.library if isinstance(libmod, (ExecutorFactory, LoadedLibrary)) else libmod
    module = library.module if isinstance(library, Library) else library
    if not isinstance(module, Module):
        raise UserError(f"create takes a library that relay.build gave, got {type(libmod).__name__}")
    graph = data if isinstance(data, Graph) else Graph(data)
    return GraphModule(GraphFunctions(GraphExecutor(graph, module)))


__all__ = ["GraphModule", "create"]
