"""``storage_id``: which values of a graph share memory, beside the graph in the executor's JSON.

Inputs and constants have memory of their own. A value takes that of one which nobody reads any more, where the sizes
are within a factor of 16 of each other; a reshape (``__nop``) has its input's. Invariant: two values that live at the
same time have different numbers, but for reshapes. byoc's own executors plan finer
(``byoc.runtime.graph.memory_plan``) and do not read the numbers. Source: ``GraphPlanMemory`` of Relay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.strict_json import mapping_of
from byoc.runtime.graph.graph import RESHAPE, Entry, Graph

MATCH_RANGE = 16


@dataclass
class _Token:
    """One piece of memory: its number, its bytes, and how many reads are to come."""

    number: int
    size: int
    reads: int = 0


def with_storage(data: Mapping[str, object]) -> dict[str, object]:
    """The graph *data* with ``storage_id`` among its attributes."""
    attrs = mapping_of(data["attrs"], "attrs")
    return {**data, "attrs": {**attrs, "storage_id": ["list_int", storage_ids(Graph(data))]}}


def storage_ids(graph: Graph) -> list[int]:
    """The number of each entry's memory, in the order of the entries."""
    reads: Counter[Entry] = Counter(graph.heads)
    for node in graph.nodes:
        reads.update(node.inputs)
    tokens: dict[Entry, _Token] = {}
    free: list[_Token] = []
    count = 0
    for node in graph.nodes:
        for entry in node.outputs:
            if node.function == RESHAPE:
                tokens[entry] = tokens[node.inputs[0]]
            else:
                size = _bytes(graph, entry)
                token = _taken(free, size) if node.function and size is not None else None
                if token is None:
                    token, count = _Token(count, size or 0), count + 1
                tokens[entry] = token
            tokens[entry].reads += reads[entry] + (not node.function)  # what is set from outside is never free
        for entry in node.inputs:
            tokens[entry].reads -= 1
        given = {id(tokens[entry]): tokens[entry] for entry in (*node.inputs, *node.outputs)}
        free += [token for token in given.values() if not token.reads and token not in free]
    return [tokens[entry].number for node in graph.nodes for entry in node.outputs]


def _bytes(graph: Graph, entry: Entry) -> int | None:
    spec = graph.specs[entry]
    if not all(isinstance(size, int) for size in spec.shape):
        return None
    return math.prod(spec.concrete_shape({})) * numpy_dtype(spec.dtype).itemsize


def _taken(free: list[_Token], size: int) -> _Token | None:
    """A free token for *size* bytes, taken out of *free*: the smallest that holds them, else the largest, grown."""
    larger = [token for token in free if size <= token.size < size * MATCH_RANGE]
    smaller = [token for token in free if size // MATCH_RANGE <= token.size < size]
    token = min(larger, key=lambda t: t.size) if larger else max(smaller, key=lambda t: t.size, default=None)
    if token is not None:
        free.remove(token)
        token.size = max(token.size, size)
    return token
