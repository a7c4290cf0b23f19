"""Profiles of the virtual machine: every call of a function of the library timed; what is left is the machine's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.graph.graph import LoopCall, LoopResult
from byoc.runtime.modules.metadata import MetadataModule
from byoc.runtime.modules.module import Module
from byoc.runtime.profile.graph_profile import Clock, Runs, function_record, peaks_of
from byoc.runtime.profile.record import Span
from byoc.runtime.profile.run_profile import RunProfile
from byoc.runtime.vm.library_calls import LibraryCalls
from byoc.runtime.vm.program import PackedSymbol


class TimedCalls(LibraryCalls):
    """As LibraryCalls; *spans* has the times of each symbol's calls, *moved* the bytes that they read and wrote."""

    def __init__(self, symbols: Sequence[PackedSymbol], library: Module | None, clock: Clock):
        super().__init__(symbols, library)
        self._clock = clock
        self.spans: dict[str, list[Span]] = {}
        self.moved: dict[str, int] = {}

    def call(self, index: int, args: Sequence[NDArray]) -> list[NDArray]:
        symbol, begin = self._symbols[index].symbol, self._clock()
        results = super().call(index, args)
        self.spans.setdefault(symbol, []).append((begin, self._clock()))
        self.moved[symbol] = self.moved.get(symbol, 0) + sum(a.nbytes for a in (*args, *results))
        return results

    def loop(self, index: int, call: LoopCall, args: Sequence[NDArray]) -> LoopResult | None:
        """None: each run is a call, whose time is wanted."""
        return None


def profile_calls(
    name: str, calls: TimedCalls, root: MetadataModule, runs: Runs, run: Callable[[], object]
) -> RunProfile:
    """The profile of *run*, which calls functions of the library *root* through *calls*."""
    runs.check()
    totals: list[float] = []
    spans: list[dict[str, list[Span]]] = []
    events: list[list[DeviceEvent]] = []
    try:
        for turn in range(-runs.warmup, runs.repeat):
            for module in root.imports:
                module.profile(True)
            calls.spans, calls.moved = {}, {}
            begin = runs.clock()
            run()
            seconds = runs.clock() - begin
            reported = [event for module in root.imports for event in module.profile(True)]
            if turn >= 0:
                totals.append(seconds)
                spans.append({s: [(a - begin, b - begin) for a, b in found] for s, found in calls.spans.items()})
                events.append([event.since(begin) for event in reported])
    finally:
        for module in root.imports:
            module.profile(False)
    symbols = dict.fromkeys(symbol for run_spans in spans for symbol in run_spans)
    records = [
        function_record(root, s, [found.get(s, ()) for found in spans], events, (calls.moved.get(s), None), {})
        for s in symbols
    ]
    peaks, problems = peaks_of(root)
    return RunProfile(
        name,
        "virtual machine",
        tuple(totals),
        tuple(records),
        warmup=runs.warmup,
        memory={"constants": root.constant_bytes},
        peaks=peaks,
    ).noting(problems)
