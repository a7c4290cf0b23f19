"""The two ways to choose kernels, by one word: ``rule`` (Paddle Lite's score) and ``measure`` (time)."""

from __future__ import annotations

from collections.abc import Iterable

from byoc.errors import PartitionError
from byoc.partition.places.grade import Formula
from byoc.partition.places.graph import Graph
from byoc.partition.places.kernel import KERNELS, KernelRegistry
from byoc.partition.places.measured import CastTime, Measured, Time, pick_measured
from byoc.partition.places.pick import Picked, pick_kernels
from byoc.partition.places.place import Place

PICKS = ("rule", "measure")


def choose_kernels(
    graph: Graph,
    places: Iterable[Place | str],
    pick: str = "rule",
    kernels: KernelRegistry = KERNELS,
    *,
    formula: str | Formula = "code",
    time: Time | None = None,
    cast_time: CastTime | None = None,
    mode: str = "joint",
) -> Picked | Measured:
    """*graph* with a kernel for each operator: by *formula* for *pick* ``rule``, by *time* for ``measure``.

    Raises PartitionError for another word, for ``measure`` without *time* or *cast_time*, and as each way does.
    """
    if pick == "rule":
        return pick_kernels(graph, places, kernels, formula)
    if pick != "measure":
        raise PartitionError(f"no way to pick is called {pick!r}; known: {', '.join(PICKS)}")
    if time is None or cast_time is None:
        raise PartitionError('pick="measure" needs time and cast_time: what a kernel and what a cast takes, in seconds')
    return pick_measured(graph, places, time, cast_time, kernels, mode)
