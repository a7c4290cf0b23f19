"""The measured model: what would be one kernel is built as one, timed beside the others, and kept.

Equal kernels are measured once, and never again where their context holds. The seconds of a kernel are divided among
its calls as the analytic model would, so that a sum over units counts them once. Of what runs on a device of its own,
the launch and the transfers are taken off, which the model counts by themselves. What cannot be built is no candidate:
its estimate is infinite and says why; on the host, which runs everything, the analytic estimate stands in and says so.
It stands in, too, for what the time to measure did not reach, which is not kept: a later plan measures on from there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from byoc.base.progress import Progress, silent
from byoc.driver.costs.probes import nothing
from byoc.driver.costs.store import CostStore, Facts, Measurement
from byoc.driver.costs.timing import TURNS, Build, Clock, Run, Turns, interleaved, ready
from byoc.driver.costs.units import channels_innermost, key_of
from byoc.errors import ByocError
from byoc.ir.op import Op
from byoc.partition.costs.analytic import AnalyticModel, kernel_seconds
from byoc.partition.costs.model import HOST_BACKEND, CostModel, Estimate, backend_of, precision_name, total, unit_calls
from byoc.partition.costs.share import function_of
from byoc.partition.costs.work import size
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function

OTHER = "channels innermost"
BATCH = 32  # functions that are held ready at once
TIMING_SECONDS = 5.0  # that kernels which are built may be timed beyond the time to measure
LATE = "the time to measure was over"
Builds = Callable[[str], Build]  # a precision -> what builds in it


@dataclass(frozen=True)
class _Work:
    """A kernel, or a call of a function, as a function to build; its seconds are divided among *units* by *shares*."""

    function: Function
    units: Sequence[Call]
    shares: Sequence[float]


class MeasuredModel(CostModel):
    """Seconds by measurement; *analytic* divides them, and knows launches and transfers by its calibration.

    *facts* gives a backend's context, *build* builds a module for a precision. *threads* run the host's code;
    *progress* is called with each step; *limit* is for how many seconds kernels are built and timed, and *late* is
    called where something was not measured for that.
    """

    name = "measured"
    progress: Progress = staticmethod(silent)
    limit: float = math.inf
    late: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        analytic: AnalyticModel,
        store: CostStore,
        facts: Callable[[str], Facts],
        build: Builds,
        threads: int | None = None,
        turns: Turns = TURNS,
        clock: Clock | None = None,
    ):
        self._analytic, self._store, self._facts, self._build = analytic, store, facts, build
        self._threads, self._turns, self._clock = threads, turns, clock
        self._known: dict[tuple[str, str], dict[str, Measurement]] = {}
        self._spent = 0.0  # seconds of the limit
        self.measured = 0  # functions that were timed, or failed, by this model

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        return self.share(calls, (), target, precision)

    def share(
        self, calls: Sequence[Call], leaving: Collection[Call], target: str, precision: str = ""
    ) -> list[Estimate]:
        backend, dtype = backend_of(target), precision_name(precision)
        work = [w for w in self._works(calls, leaving, target, precision) if sum(w.shares) > 0]
        found: dict[Call, list[Estimate]] = {call: [] for call in calls}
        measured = self._measure([w.function for w in work], backend, dtype)
        for one, measurement in zip(work, measured, strict=True):
            for unit, estimate in self._divided(one, measurement, backend):
                found[unit].append(estimate)
        return [total(estimates, self.name) for estimates in found.values()]

    def _works(self, calls: Sequence[Call], leaving: Collection[Call], target: str, precision: str) -> Iterator[_Work]:
        """The kernels of *calls*, and the calls of functions."""
        profile, dtype = self._analytic.profile(backend_of(target)), precision_name(precision)
        for kernel in self._analytic.kernels(calls, leaving, target):
            function = function_of([s.call for s in kernel.steps], kernel.stored, kernel.given)
            yield _Work(function, [s.unit for s in kernel.steps], kernel_seconds(kernel, profile, dtype))
        functions = [call for call in calls if not isinstance(call.op, Op)]
        for call, estimate in zip(functions, self._analytic.units(functions, target, precision), strict=True):
            yield _Work(function_of([call]), [call], [estimate.seconds])

    def region(self, function: Function, target: str, precision: str = "") -> Estimate:
        backend = backend_of(target)
        plain = Function(function.params, function.body)
        measurement = self._measure([plain], backend, precision_name(precision))[0]
        if measurement.seconds is None:
            analytic = self._analytic.region(function, target, precision).seconds
            return self._without(measurement, backend, analytic)
        least = len(unit_calls(function)) * self._analytic.profile(backend).kernel
        return Estimate(max(measurement.seconds - self._around(plain, backend), least), self.name)

    def transfer(self, size: int, source: str, destination: str) -> Estimate:
        return self._analytic.transfer(size, source, destination)

    def launch(self, target: str) -> Estimate:
        return self._analytic.launch(target)

    def _divided(self, work: _Work, measurement: Measurement, backend: str) -> list[tuple[Call, Estimate]]:
        parts = list(zip(work.units, work.shares, strict=True))
        if measurement.seconds is None:
            return [(unit, self._without(measurement, backend, share)) for unit, share in parts]
        least = self._analytic.profile(backend).kernel
        seconds = max(measurement.seconds - self._around(work.function, backend), least)
        return [(unit, Estimate(seconds * share / sum(work.shares), self.name)) for unit, share in parts]

    def _without(self, measurement: Measurement, backend: str, analytic: float) -> Estimate:
        """What stands for a unit that could not be measured."""
        if measurement.reason == LATE:
            return Estimate(analytic, f"analytic, for {LATE}")
        if backend == HOST_BACKEND:
            return Estimate(analytic, f"analytic, for it cannot be measured: {measurement.reason}")
        return Estimate(math.inf, f"measured: {measurement.reason}")

    def _around(self, function: Function, backend: str) -> float:
        """The seconds of a call of *function* that are not its work: those of any call, a launch, and transfers."""
        measured = self._measure([nothing()], HOST_BACKEND, "")[0].seconds or 0.0
        empty = min(measured, self._least(HOST_BACKEND))
        if backend == HOST_BACKEND:
            return empty
        given = [self.transfer(size(p.checked_type), HOST_BACKEND, backend).seconds for p in function.params]
        taken = self.transfer(size(infer_expr(function.body)), backend, HOST_BACKEND).seconds
        return min(empty + self.launch(backend).seconds, self._least(backend)) + sum(given) + taken

    def _least(self, backend: str) -> float:
        """The least seconds of any call that was measured; one without work takes no more, whatever was found of it at
        a busy moment, and is kept.
        """
        known = [m for (name, _), found in self._known.items() if name == backend for m in found.values()]
        return min((m.seconds for m in known if m.seconds is not None), default=math.inf)

    def _measure(self, functions: Sequence[Function], backend: str, dtype: str) -> list[Measurement]:
        """The measurement of each of *functions*: known ones, and the others made now, each once."""
        facts = {**self._facts(backend), "precision": dtype}
        if (backend, dtype) not in self._known:
            self._known[backend, dtype] = self._store.measurements(facts)
        known = self._known[backend, dtype]
        keys = [key_of(function) for function in functions]
        missing = {key: f for key, f in zip(keys, functions, strict=True) if key not in known}
        names, done = list(missing), 0
        while done < len(names):
            batch = {key: missing[key] for key in names[done : done + BATCH]}

            def report(built: int, done: int = done) -> None:
                self.progress(f"measuring {backend}: {done + built} of {len(names)} kernels")

            made = self._time(batch, backend, dtype, report)
            self._store.add(facts, made.values())
            known.update(made)
            done += BATCH
            if len(made) < len(batch):
                self.late()
                break
        self.measured += sum(key in known for key in names)
        return [known.get(key) or Measurement(key, None, LATE) for key in keys]

    def _time(
        self, functions: Mapping[str, Function], backend: str, dtype: str, report: Callable[[int], None]
    ) -> dict[str, Measurement]:
        """Of what the host runs on images also with their channels innermost: the faster is how a model has it.

        What was not built when the time was over is left out, and what was not timed then. *report* is called with the
        number of those that are built.
        """
        clock = self._clock or time.perf_counter
        start = clock()
        until = start + max(self.limit - self._spent, 0.0)
        runs: dict[str, Run] = {}
        made: dict[str, Measurement] = {}
        for number, (key, function) in enumerate(functions.items()):
            if clock() >= until:
                break
            report(number)
            try:
                runs[key] = ready(function, backend, self._build(dtype), self._threads)
            except ByocError as error:
                made[key] = Measurement(key, None, str(error))
                continue
            other = channels_innermost(function) if backend == HOST_BACKEND else None
            if other is not None:
                with suppress(ByocError):  # then the order of the model is the only one
                    runs[f"{key} {OTHER}"] = ready(other, backend, self._build(dtype), self._threads)
        found = interleaved(runs, self._turns, clock, max(until, clock()) + TIMING_SECONDS)
        self._spent += clock() - start
        made.update(
            {
                key: Measurement(key, min(found[key], found.get(f"{key} {OTHER}", math.inf)))
                for key in functions
                if key in found
            }
        )
        return made
