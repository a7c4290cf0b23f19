"""With how many threads a model's functions run here, so that they are timed as they will run."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.codegen.c.whole.program import operations_of
from byoc.codegen.kernel.program import Program
from byoc.runtime.graph.executor_base import thread_count
from byoc.runtime.graph.graph import Graph


def run_threads(graph: Graph | None, programs: Sequence[Program]) -> int:
    """The threads of an executor of *graph*, one function of *programs* by their symbols, unless its user says another.

    Without a graph functions are called one by one, each by one thread.
    """
    if graph is None:
        return 1
    operations = {p.symbol: sum(operations_of(s) for g in p.parts for s in g.stages) for p in programs}
    return thread_count(None, sum(operations.get(node.function, 0) for node in graph.calls))
