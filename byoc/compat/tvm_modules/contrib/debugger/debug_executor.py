"""``GraphModuleDebug``: the graph's executor node by node. Source: ``tvm.contrib.debugger.debug_executor``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from byoc.compat.tvm_modules.contrib.graph_executor import GraphModule
from byoc.compat.tvm_modules.contrib.graph_executor import create as create_plain
from byoc.compat.tvm_modules.runtime import GraphFunctions
from byoc.runtime.core.benchmark import benchmark
from byoc.runtime.core.device import Device
from byoc.runtime.library import Library
from byoc.runtime.modules.module import Module


class GraphModuleDebug(GraphModule):
    """An executor that times nodes one by one; nothing is dumped to *dump_root*."""

    def __init__(
        self,
        module: GraphFunctions,
        device: Device | Sequence[Device],
        graph_json_str: str | None = None,
        dump_root: str | None = None,
    ):
        super().__init__(module)
        self._dump_root = dump_root

    def run_individual(
        self,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[list[float]]:
        """For each node that calls a function the seconds of a call, once for each repetition.

        Raises InputError when an input is missing.
        """
        self.run()
        return [
            list(benchmark(step, repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown).results)
            for step in self._executor.steps
        ]

    def run_individual_node(
        self,
        index: int,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        limit_zero_time_iterations: int = 100,
        cooldown_interval_ms: int = 0,
        repeats_to_cooldown: int = 1,
    ) -> list[float]:
        """The seconds of a call of node *index* of the graph; none for an input. Raises IndexError for no such node."""
        node = self._executor.graph.nodes[index]
        calls = self._executor.graph.calls
        if node not in calls:
            return []
        self.run()
        step = self._executor.steps[calls.index(node)]
        return list(benchmark(step, repeat, number, min_repeat_ms, cooldown_interval_ms, repeats_to_cooldown).results)

    def exit(self) -> None:
        """There is nothing to remove."""


def create(
    graph_json_str: str | Mapping[str, object],
    libmod: Module | Library,
    device: Device | Sequence[Device],
    dump_root: str | None = None,
) -> GraphModuleDebug:
    """A debugging executor of a graph in JSON over the functions of a library. Source: ``debug_executor.create``."""
    text = graph_json_str if isinstance(graph_json_str, str) else json.dumps(dict(graph_json_str))
    return GraphModuleDebug(create_plain(text, libmod, device).module, device, text, dump_root)


__all__ = ["GraphModuleDebug", "create"]
