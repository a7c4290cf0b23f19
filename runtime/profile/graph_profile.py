"""Profiles of a graph: its runs node by node, each step timed, and the whole program's time beside it.

A model that is one native function cannot be divided from outside. So the graph executor runs it, on one thread, node
by node, which calls the same functions; the times are those of the functions, and their sum is no time of the whole.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.errors import DeviceError, UserError
from byoc.runtime.devices.peak import Peak
from byoc.runtime.executors.control_executor import ControlExecutor
from byoc.runtime.executors.graph_executor import GraphExecutor
from byoc.runtime.graph.executor_base import Executor
from byoc.runtime.graph.graph import RESHAPE, Node
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.profile.kept_peaks import kept_peaks
from byoc.runtime.profile.record import FunctionRecord, PartRecord, Span
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.region.call import RegionCall

Clock = Callable[[], float]
NODE_BY_NODE = (
    "the whole program is one native function, which cannot be divided from outside: the rows are of a run node by "
    "node on one thread"
)
STARTED = "regions that are started work beside the host: what rows take together is more than a run takes"


@dataclass(frozen=True)
class Runs:
    """How often, and by which clock (``time.perf_counter``, in which events of modules are given, but in tests)."""

    repeat: int = 10
    warmup: int = 2
    clock: Clock = time.perf_counter

    def check(self) -> None:
        """Raises UserError for counts that are none."""
        for name, value, least in (("repeat", self.repeat, 1), ("warmup", self.warmup, 0)):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise UserError(f"{name} is a whole number from {least} on, got {value!r}")


class TimedStep:
    """A step of the graph executor and the times at which it was at work; it can be started where the step can."""

    def __init__(self, step: Callable[[], object], clock: Clock):
        self.step, self.clock = step, clock
        self.spans: list[Span] = []
        self._begin = 0.0

    def __call__(self) -> None:
        begin = self.clock()
        self.step()
        self.spans.append((begin, self.clock()))

    def start(self, after: Sequence[TimedStep]) -> None:
        """Begin, when *after* are done."""
        self._begin = self.clock()
        _started(self.step).start([_started(other.step) for other in after])

    def wait(self) -> None:
        """Return when it is done: until then it counts as at work."""
        _started(self.step).wait()
        if self._begin:
            self.spans.append((self._begin, self.clock()))
            self._begin = 0.0

    def abandon(self, seconds: float | None = None) -> None:
        """As of the step."""
        _started(self.step).abandon(seconds)


def _started(step: Callable[[], object]) -> RegionCall:
    """*step*, which the executor starts only where it is the call of a region."""
    assert isinstance(step, RegionCall)
    return step


def profile_graph(
    model: str,
    root: MetadataModule,
    executors: tuple[GraphExecutor, Executor | None],
    inputs: Mapping[str, object],
    runs: Runs,
    peaks: Mapping[str, Peak],
) -> RunProfile:
    """The profile of a library below *root*: by its graph executor, and by the one of the whole where it has one."""
    runs.check()
    executor, whole = executors[0], None if isinstance(executors[1], (GraphExecutor, ControlExecutor)) else executors[1]
    totals: list[float] = []
    spans: list[dict[str, list[Span]]] = []
    events: list[list[DeviceEvent]] = []
    for module in root.imports:
        module.profile(True)
    try:
        begin = runs.clock()
        executor(inputs)
        first = runs.clock() - begin
        for turn in range(-runs.warmup, runs.repeat):
            timed: dict[str, list[TimedStep]] = {}
            for module in root.imports:
                module.profile(True)
            executor.wrap = functools.partial(_timed, timed, runs.clock)
            begin = runs.clock()
            executor.run()
            seconds = runs.clock() - begin
            reported = [event for module in root.imports for event in module.profile(True)]
            if turn >= 0:
                totals.append(seconds)
                spans.append({name: _from(begin, [s for t in steps for s in t.spans]) for name, steps in timed.items()})
                events.append([event.since(begin) for event in reported])
    finally:
        executor.wrap = None
        for module in root.imports:
            module.profile(False)
    overlaps = any(executor.graph.overlap().is_started(k) for k in range(len(executor.graph.calls)))
    return RunProfile(
        model,
        "graph executor",
        tuple(totals),
        tuple(_records(root, executor, spans, events)),
        _times(whole, inputs, runs),
        getattr(getattr(whole, "inner", whole), "threads", 1),
        runs.warmup,
        _memory(root, executor),
        dict(peaks),
        notes=(
            *([NODE_BY_NODE] if whole is not None else []),
            *([STARTED] if overlaps else []),
            *(f"on the host instead: {fallback}" for fallback in executor.fallbacks),
        ),
        first=first,
    )


def _timed(timed: dict[str, list[TimedStep]], clock: Clock, node: Node, step: Callable[[], object]) -> TimedStep:
    made = TimedStep(step, clock)
    if node.function != RESHAPE:
        timed.setdefault(node.function, []).append(made)
    return made


def _from(begin: float, spans: Sequence[Span]) -> list[Span]:
    return [(a - begin, b - begin) for a, b in spans]


def _times(whole: Executor | None, inputs: Mapping[str, object], runs: Runs) -> tuple[float, ...]:
    """The seconds of runs of *whole*."""
    if whole is None:
        return ()
    values = [inputs[node.name] for node in whole.graph.inputs]
    found = []
    for turn in range(-runs.warmup - 1, runs.repeat):
        begin = runs.clock()
        whole.compute(values)
        seconds = runs.clock() - begin
        if turn >= 0:
            found.append(seconds)
    return tuple(found)


def _records(
    root: MetadataModule,
    executor: GraphExecutor,
    spans: Sequence[Mapping[str, Sequence[Span]]],
    events: Sequence[Sequence[DeviceEvent]],
) -> list[FunctionRecord]:
    """A record for each function that the graph calls, in the order of the first calls."""
    live = dict[str, int]()
    moved = dict[str, int | None]()
    for node, memory in zip(executor.graph.calls, executor.live_bytes(), strict=True):
        live[node.function] = max(memory, live.get(node.function, 0))
        arrays = [executor.buffers.get(entry) for entry in (*node.inputs, *node.outputs)]
        size = _nbytes(arrays)
        before = moved.get(node.function, _constant_bytes(root, node.function))
        moved[node.function] = None if size is None or before is None else before + size
    symbols = dict.fromkeys(node.function for node in executor.graph.calls if node.function != RESHAPE)
    return [
        function_record(
            root,
            symbol,
            [list(run.get(symbol, ())) for run in spans],
            events,
            (moved[symbol], live[symbol]),
            executor.sizes,
        )
        for symbol in symbols
    ]


def function_record(
    root: MetadataModule,
    symbol: str,
    spans: Sequence[Sequence[Span]],
    events: Sequence[Sequence[DeviceEvent]],
    counts: tuple[int | None, int | None],
    sizes: Mapping[str, int],
) -> FunctionRecord:
    """The record of *symbol* with its *spans* and *events* by run; *counts* are bytes moved and live, *sizes* those of
    free dimensions."""
    region, work, owner = root.regions.get(symbol), root.work.get(symbol), root.owner(symbol)
    operators = tuple(o.bound(sizes) for o in work.operators) if work is not None else ()
    own = dict.fromkeys(name for operator in operators for name in operator.nodes)
    nodes = region.nodes if region is not None else tuple(own)
    backend = region.target if region is not None else owner.type_key if owner is not None else ""
    last_of = {e.name: e for run in events for e in run if e.symbol == symbol}
    parts = [
        _part(last, [[e for e in run if (e.symbol, e.name) == (symbol, name)] for run in events])
        for name, last in last_of.items()
    ]
    return FunctionRecord(
        symbol, backend, tuple(map(tuple, spans)), region is not None, operators, nodes, *counts, tuple(parts)
    )


def _part(last: DeviceEvent, runs: Sequence[Sequence[DeviceEvent]]) -> PartRecord:
    """What its module reported of a kernel or a copy in each run, *last* of all."""
    spans = tuple(tuple((e.begin, e.end) for e in run) for run in runs)
    waits = tuple(tuple(e.waits for e in run) for run in runs) if last.queue else ()
    return PartRecord(last.name, spans, last.nodes, last.sizes, last.facts, last.queue, waits)


def peaks_of(root: MetadataModule) -> tuple[dict[str, Peak], list[str]]:
    """By backend what the devices of the library *root* can do at most, and why that of one is not known.

    A module that measures its device knows best; of others a calibration of this machine is taken where one is kept.
    """
    found, problems = dict(kept_peaks(backends_of(root))), list[str]()
    for module in root.imports:
        names = {root.regions[s].target if s in root.regions else module.type_key for s in module.symbols}
        try:
            peak = module.peak()
        except DeviceError as error:
            problems.append(f"shares of a peak are not known: {error}")
            continue
        if peak is not None:
            found.update(dict.fromkeys(names, peak))
    return found, problems


def backends_of(root: MetadataModule) -> list[str]:
    """The backends that made the functions of the library *root*."""
    targets = [region.target for region in root.regions.values()]
    return list(dict.fromkeys([*targets, *(work.backend for work in root.work.values())]))


def _constant_bytes(root: MetadataModule, symbol: str) -> int:
    return sum(root.constant_arrays[key].nbytes for key in root.needs.get(symbol, ()))


def _nbytes(arrays: Sequence[np.ndarray | None]) -> int | None:
    """The bytes of *arrays*; None where one holds strings or is not there."""
    if any(a is None or a.dtype.hasobject for a in arrays):
        return None
    return sum(a.nbytes for a in arrays if a is not None)


def _memory(root: MetadataModule, executor: GraphExecutor) -> dict[str, int]:
    def total(entries: Sequence[tuple[int, int]]) -> int:
        return _nbytes([executor.buffers.get(e) for e in entries]) or 0

    return {
        "inputs": total([node.outputs[0] for node in executor.graph.inputs]),
        "outputs": total(executor.graph.heads),
        "between nodes": executor.memory.total,
        "constants": root.constant_bytes,
    }
