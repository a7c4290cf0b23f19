"""A model over a batch item by item: one loop around code for a single item, whose sizes are known; and when.

All steps of one item come before those of the next, so that what they hand on is still in the caches, and each is the
code of a batch of one. Steps over the whole batch read weights once for all items, and start a team's threads less
often: they stay where items are small, or where products have few rows an item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.codegen.c.whole.program import operations_of
from byoc.codegen.kernel.batch_items import item_program
from byoc.codegen.kernel.inline import estimated_size
from byoc.codegen.kernel.program import Program, holds_batch
from byoc.codegen.tune.run_threads import run_threads
from byoc.ir.types import dtype_bytes
from byoc.runtime.graph.graph import RESHAPE, Graph
from byoc.te import Dimension, Size, Tensor
from byoc.te.expr import Reduce
from byoc.te.walk import loaded_tensors, unique_nodes

LEAST_BYTES = 1 << 20  # of the largest step of an item: less stays in the caches for many items
LEAST_OPERATIONS = 2_000_000  # terms of sums, of a step, for each thread, on average: a team meets after each step
FEW_ROWS = 16  # of a product: with so few, fetching the weights is what takes the time
WEIGHTS_SHARE = 0.25  # of the bytes of what an item's steps hand on, that products of few rows may fetch as weights


def item_programs(programs: Sequence[Program], graph: Graph) -> Sequence[Program]:
    """*programs* as the steps of *graph* for one item of its batch, or themselves.

    They stay as they are where a size other than the batch's is free, where *graph* calls what is not among them, where
    items depend on each other, and where computing item by item does not pay.
    """
    size = batch_of(graph)
    known = {p.symbol for p in programs}
    if size is None or any(node.function not in known and node.function != RESHAPE for node in graph.calls):
        return programs
    if not _fits(graph, size):
        return programs
    made = {p.symbol: item_program(p, size) for p in programs}
    items = {symbol: item for symbol, item in made.items() if item is not None}
    if len(items) < len(made) or not _agree(graph, items, size) or not _pays(graph, items):
        return programs
    return [items[p.symbol] for p in programs]


def batch_of(graph: Graph) -> Dimension | None:
    """What is first in the shapes of *graph*'s inputs: its one free size, or, where none is free, a number above 1."""
    names = {d for spec in graph.specs.values() for d in spec.shape if not isinstance(d, int)}
    first = {graph.specs[n.outputs[0]].shape[0] for n in graph.inputs if graph.specs[n.outputs[0]].shape}
    found = next((d for d in first if not isinstance(d, int)), None)
    if names:
        return Size(found) if isinstance(found, str) and names == {found} else None
    numbers = [d for d in first if isinstance(d, int) and d > 1]
    return numbers[0] if len(first) == len(numbers) == 1 else None


def _fits(graph: Graph, size: Dimension) -> bool:
    """Whether a value of *graph* holds a free batch as its first dimension alone, or not at all, through views too."""
    if isinstance(size, Size) and any(size.name in spec.shape[1:] for spec in graph.specs.values()):
        return False
    views = [(n.inputs[0], n.outputs[0]) for n in graph.calls if n.function == RESHAPE]
    return all(len({holds_batch(graph.specs[e].shape, size) for e in view}) == 1 for view in views)


def _agree(graph: Graph, items: Mapping[str, Program], size: Dimension) -> bool:
    """Whether what holds the batch is made by an item's program, and what does not is made without one."""
    for node in graph.calls:
        if node.function != RESHAPE:
            of_items = items[node.function].batch is not None
            if any(holds_batch(graph.specs[e].shape, size) != of_items for e in node.outputs):
                return False
    return True


def _pays(graph: Graph, items: Mapping[str, Program]) -> bool:
    """Whether an item is so large that the caches do not hold a batch, and needs few weights for few rows."""
    steps = [items[n.function] for n in graph.calls if n.function != RESHAPE and items[n.function].batch is not None]
    stages = [s for p in steps for g in p.parts for s in g.stages]
    operations = sum(map(operations_of, stages))
    largest = max((sum(map(_bytes, (*_item_inputs(p), *p.outputs))) for p in steps), default=0)
    handed_on = sum(2 * _bytes(t) for p in steps for t in (*p.outputs, *p.temporaries))  # written, and read again
    few = sum(_weights_of_few_rows(p) for p in steps)
    return (
        largest >= LEAST_BYTES
        and operations >= LEAST_OPERATIONS * run_threads(graph, [*items.values()]) * len(steps)
        and few <= WEIGHTS_SHARE * handed_on
    )


def _item_inputs(program: Program) -> list[Tensor]:
    """The inputs of *program* that hold an item; the others are the same for all items."""
    pairs = zip(program.inputs, program.signature.inputs, strict=True)
    return [t for t, spec in pairs if program.batch is not None and holds_batch(spec.shape, program.batch)]


def _bytes(tensor: Tensor) -> int:
    return estimated_size(tensor.shape) * dtype_bytes(tensor.dtype)


def _weights_of_few_rows(program: Program) -> int:
    """The bytes of what all items share, constants or inputs, that sums read for at most FEW_ROWS results each."""
    shared = {*program.inputs, *(t for t, _ in program.constants)}.difference(_item_inputs(program))
    found = 0
    for stage in (s for g in program.parts for s in g.stages if s.body is not None):
        sums = [n for n in unique_nodes(stage.element) if isinstance(n, Reduce)]
        points = [estimated_size([a.extent for a in n.axes]) for n in sums]
        reads = estimated_size(stage.shape) * max(points, default=1)
        for tensor in loaded_tensors(stage.element):
            if points and tensor in shared and reads <= FEW_ROWS * estimated_size(tensor.shape):
                found += _bytes(tensor)
    return found
