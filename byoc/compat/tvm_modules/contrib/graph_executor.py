"""``GraphModule``: runs what ``relay.build`` gives. Source: ``tvm.contrib.graph_executor``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from byoc.compat.tvm_modules.ir.container import Map
from byoc.compat.tvm_modules.runtime import GraphFunctions, LoadedLibrary
from byoc.errors import UserError
from byoc.runtime.core.benchmark import BenchmarkResult
from byoc.runtime.core.container import ShapeTuple, String
from byoc.runtime.core.device import Device
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.graph.graph import Graph
from byoc.runtime.library import Library
from byoc.runtime.modules.module import Module
from byoc.runtime.params import load_param_dict


class GraphModule:
    """An executor with TVM's calls; inputs keep their value from run to run.

    Inputs are converted to the dtype of their parameter and read as zeros until they are set (``GraphInputs``).
    """

    def __init__(self, module: GraphFunctions):
        if not isinstance(module, GraphFunctions):
            raise UserError('GraphModule takes what lib["default"](device) gives, or use graph_executor.create')
        self.module = module
        self._executor: GraphExecutor = module.executor
        self._inputs = module.inputs
        self._places: dict[int, NDArray] = {}

    def set_input(
        self, key: str | int | Mapping[str, object] | None = None, value: object = None, **params: object
    ) -> None:
        """Set one input by name or position, and those of *params*; names in it that the graph lacks are passed over.

        The values are copied, in the dtype of the input. Raises InputError for a *key* that the graph lacks.
        """
        if isinstance(key, Mapping):
            params = {**key, **params}
        elif key is not None:
            self._inputs.set(key, value)
        for name in [name for name in params if name in self._names()]:
            self._inputs.set(name, params[name])

    def set_input_zero_copy(self, key: str | int | None = None, value: object = None, **params: object) -> None:
        """As :meth:`set_input`, but the arrays themselves are read when the graph runs."""
        if key is not None:
            self._inputs.share(key, value)
        for name in [name for name in params if name in self._names()]:
            self._inputs.share(name, params[name])

    def set_output_zero_copy(self, key: str | int, value: NDArray) -> None:
        """Have an output written to *value* by each run. Raises UserError for an output that there is not."""
        index = self.get_output_index(key) if isinstance(key, str) else key
        if not 0 <= index < self.get_num_outputs():
            raise UserError(f"the graph has {self.get_num_outputs()} outputs, there is no output {key!r}")
        self._places[index] = value

    def run(self, **input_dict: object) -> None:
        """Run the graph, with *input_dict* set first. Raises InputError when an input does not fit."""
        if input_dict:
            self.set_input(input_dict)
        self.module.run()
        for index, place in self._places.items():
            place.copyfrom(self._executor.get_output(index))

    def get_output(self, index: int, out: NDArray | None = None) -> NDArray:
        """Output *index* of the last run, or *out* with it copied in."""
        result = self._executor.get_output(index)
        return NDArray(result.numpy().copy()) if out is None else out.copyfrom(result)

    def get_input(self, index: int | str, out: NDArray | None = None) -> NDArray | None:
        """An input itself by position or name: what is written to it is read by the next run; None without such one."""
        place = self.get_input_index(index) if isinstance(index, str) else index
        if not 0 <= place < self.get_num_inputs():
            return None
        value = self._inputs.get(place)
        return value if out is None else out.copyfrom(value)

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

    def get_output_index(self, name: str) -> int:
        """The position of the output of the node *name*, or -1."""
        graph = self._executor.graph
        names = [graph.nodes[node].name for node, _ in graph.heads]
        return names.index(name) if name in names else -1

    def get_input_info(self) -> tuple[Map, Map]:
        """The shapes and the dtypes of the inputs, by name."""
        pairs = list(zip(self._names(), self._inputs.specs, strict=True))
        shapes = Map({name: ShapeTuple(spec.shape) for name, spec in pairs})  # type: ignore[arg-type]
        return shapes, Map({name: String(spec.dtype) for name, spec in pairs})

    def debug_get_output(self, node: str | int, out: NDArray) -> NDArray:
        """Copy the first value of a node of the last run to *out*, by the node's name or number.

        A value whose memory another has taken since is not what it was. Raises UserError for an unknown node.
        """
        graph = self._executor.graph
        index = node if isinstance(node, int) else next((k for k, n in enumerate(graph.nodes) if n.name == node), -1)
        value = self._executor.value_of((index, 0))
        if value is None:
            raise UserError(f"the graph has no node {node!r} with a value: run it first")
        return out.copyfrom(value)

    def load_params(self, params_bytes: bytes | bytearray) -> None:
        """Set the inputs that ``save_param_dict`` wrote."""
        self.set_input(load_param_dict(params_bytes))

    def share_params(self, other: GraphModule, params_bytes: bytes | bytearray) -> None:
        """Take the inputs that ``save_param_dict`` named from *other*, without a copy."""
        for name in load_param_dict(params_bytes):
            value = other._executor.input_values.get(name)
            if value is not None:
                self._inputs.share(name, value)

    def benchmark(
        self,
        device: Device,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: int | None = None,
        limit_zero_time_iterations: int = 100,
        end_to_end: bool = False,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
        **kwargs: object,
    ) -> BenchmarkResult:
        """Seconds of a run on the inputs *kwargs*; *end_to_end* counts the copies of inputs and outputs too."""
        if end_to_end:
            pairs = [part for name, value in kwargs.items() for part in (name, value)]
            name, args = "run_from_inputs", [device.device_type, device.device_id, *pairs]
        else:
            if kwargs:
                self.set_input(kwargs)
            name, args = func_name, []
        timed = self.module.time_evaluator(
            name,
            device,
            repeat=repeat,
            number=number,
            min_repeat_ms=min_repeat_ms or 0,
            limit_zero_time_iterations=limit_zero_time_iterations,
            cooldown_interval_ms=cooldown_interval_ms,
            repeats_to_cooldown=repeats_to_cooldown,
        )
        return timed(*args)

    def __getitem__(self, name: str) -> object:
        return self.module[name]

    def _names(self) -> list[str]:
        return self._inputs.names


def create(
    graph_json_str: str | Mapping[str, object] | Graph,
    libmod: Module | Library | LoadedLibrary,
    device: Device | Sequence[Device],
) -> GraphModule:
    """An executor of a graph in JSON over the functions of a library. Source: ``graph_executor.create``.

    Raises UserError for anything but a library and a graph.
    """
    if not isinstance(graph_json_str, (str, Mapping, Graph)):
        raise UserError(f"create takes a graph as JSON text, got {type(graph_json_str).__name__}")
    data = json.loads(graph_json_str) if isinstance(graph_json_str, str) else graph_json_str
    module = libmod.library.module if isinstance(libmod, LoadedLibrary) else libmod
    module = module.module if isinstance(module, Library) else module
    if not isinstance(module, Module):
        raise UserError(f"create takes a library that relay.build gave, got {type(libmod).__name__}")
    graph = data if isinstance(data, Graph) else Graph(data)
    return GraphModule(GraphFunctions(GraphExecutor(graph, module)))


__all__ = ["GraphModule", "create"]
