"""What a compiled plan takes: the whole model, and each region, beside what was estimated.

Calls of regions are timed in the order of the graph, with the values of a whole run, so that a region reads what it
would read; work that its device goes on with after the call is in the whole model's figure alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

import numpy as np

from byoc.errors import UserError
from byoc.partition.plan.plan import Plan
from byoc.partition.show.table import WHOLE
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.library import Library

HOST_WORK = "host"
TURNS = 9
LEAST_SECONDS = 0.02  # of a turn of the whole model


def measure(
    library: Library,
    plan: Plan | None = None,
    inputs: Mapping[str, object] | None = None,
    turns: int = TURNS,
    clock: Callable[[], float] = time.perf_counter,
) -> Plan:
    """The plan of *library* with measured seconds: the medians of *turns* for each region, all else on the ``host``,
    and the whole model (``total``). *plan* is the library's own where it is None; *inputs* are random where none are
    given, which needs inputs of known sizes.

    Raises UserError for a model whose inputs have free sizes, without *inputs*.
    """
    own = Plan.from_json(library.report["plan"]) if plan is None else plan
    values = dict(inputs) if inputs is not None else random_inputs(library)
    found: dict[str, list[float]] = {WHOLE: [], HOST_WORK: []}
    whole, stepwise = library.executor(), library.graph_executor()
    stepwise(values)
    whole(values)
    functions = [node.function for node in stepwise.graph.calls]
    regions = {region.symbol for region in own.regions}
    for _ in range(turns):
        found[WHOLE].append(_seconds(lambda: whole(values), clock))
        turn = dict.fromkeys([*(f for f in functions if f in regions), HOST_WORK], 0.0)
        for function, step in zip(functions, stepwise.steps, strict=True):
            start = clock()
            step()
            turn[function if function in regions else HOST_WORK] += clock() - start
        for name, seconds in turn.items():
            found.setdefault(name, []).append(seconds)
    return own.with_measured({name: statistics.median(seconds) for name, seconds in found.items()})


def _seconds(call: Callable[[], object], clock: Callable[[], float]) -> float:
    """The mean seconds of as many calls as make a turn."""
    count, start = 0, clock()
    while True:
        call()
        count += 1
        passed = clock() - start
        if passed >= LEAST_SECONDS:
            return passed / count


def random_inputs(library: Library) -> dict[str, object]:
    """Seeded inputs of *library* by name. Raises UserError where one has free sizes."""
    rng = np.random.default_rng(0)
    values: dict[str, object] = {}
    for spec in library.inputs:
        shape = [d for d in spec.shape if isinstance(d, int)]
        if len(shape) < len(spec.shape):
            raise UserError(
                f"input {spec.name} has free sizes {spec}: give inputs to measure with, or its shape when it is planned"
            )
        dtype = numpy_dtype(spec.dtype)
        low, high = (-1, 1) if np.issubdtype(dtype, np.floating) else (0, 2)
        values[spec.name] = np.asarray(rng.uniform(low, high, shape)).astype(dtype)
    return values
