"""The measured model: what would be one kernel is built as one, timed beside the others, and kept.

Equal kernels are measured once, and never again where their context holds. The seconds of a kernel are divided among
its calls as the analytic model would, so that a sum over units counts them once. Of what runs on a device of its own,
the launch and the transfers are taken off, which the model counts by themselves. What cannot be built is no candidate:
its estimate is infinite and says why; on the host, which runs everything, the analytic estimate stands in and says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from byoc.driver.costs.probes import nothing
from byoc.driver.costs.store import Facts, Measurement, Store
from byoc.driver.costs.timing import TURNS, Build, Clock, Run, Turns, interleaved, ready
from byoc.driver.costs.units import as_function, channels_innermost, key_of
from byoc.errors import ByocError
from byoc.ir.op import Op
from byoc.partition.costs.analytic import AnalyticModel
from byoc.partition.costs.estimate import Estimate
from byoc.partition.costs.kernels import kernels_of
from byoc.partition.costs.model import HOST_BACKEND, CostModel, backend_of, unit_calls
from byoc.partition.costs.place import precision_name
from byoc.partition.costs.work import size
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Function

OTHER = "channels innermost"
BATCH = 32  # functions that are held ready at once
Builds = Callable[[str], Build]  # a precision -> what builds in it


class MeasuredModel(CostModel):
    """Seconds by measurement; *analytic* divides them, and knows launches and transfers by its calibration.

    *facts* gives a backend's context, *build* builds a module for a precision. *threads* run the host's code.
    """

    name = "measured"

    def __init__(
        self,
        analytic: AnalyticModel,
        store: Store,
        facts: Callable[[str], Facts],
        build: Builds,
        threads: int | None = None,
        turns: Turns = TURNS,
        clock: Clock | None = None,
    ):
        self._analytic, self._store, self._facts, self._build = analytic, store, facts, build
        self._threads, self._turns, self._clock = threads, turns, clock
        self._known: dict[tuple[str, str], dict[str, Measurement]] = {}
        self.measured = 0  # functions that were timed, or failed, by this model

    def units(self, calls: Sequence[Call], target: str, precision: str = "") -> list[Estimate]:
        backend, dtype = backend_of(target), precision_name(precision)
        analytic = self._analytic.units(calls, target, precision)
        shares = {call: e.seconds for call, e in zip(calls, analytic, strict=True)}
        fuses = self._analytic.profile(backend).fuses
        kernels = [tuple(s.call for s in k) for k in kernels_of([c for c in calls if isinstance(c.op, Op)], fuses)]
        kernels += [(call,) for call in calls if not isinstance(call.op, Op)]
        work = [k for k in kernels if any(shares[c] > 0 for c in k)]  # what only renames bytes is not built
        functions = [as_function(k) for k in work]
        found: dict[Call, Estimate] = {c: Estimate(0.0, self.name) for k in kernels for c in k}
        for kernel, function, measurement in zip(
            work, functions, self._measure(functions, backend, dtype), strict=True
        ):
            found.update(self._divided(kernel, function, measurement, backend, shares))
        return [found[call] for call in calls]

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

    def _divided(
        self,
        kernel: Sequence[Call],
        function: Function,
        measurement: Measurement,
        backend: str,
        shares: Mapping[Call, float],
    ) -> dict[Call, Estimate]:
        if measurement.seconds is None:
            return {call: self._without(measurement, backend, shares[call]) for call in kernel}
        least = self._analytic.profile(backend).kernel
        seconds = max(measurement.seconds - self._around(function, backend), least)
        whole = sum(shares[call] for call in kernel)
        return {call: Estimate(seconds * shares[call] / whole, self.name) for call in kernel}

    def _without(self, measurement: Measurement, backend: str, analytic: float) -> Estimate:
        """What stands for a unit that could not be measured."""
        if backend == HOST_BACKEND:
            return Estimate(analytic, f"analytic, for it cannot be measured: {measurement.reason}")
        return Estimate(math.inf, f"measured: {measurement.reason}")

    def _around(self, function: Function, backend: str) -> float:
        """The seconds of a call of *function* that are not its work: those of any call, a launch, and transfers."""
        empty = self._measure([nothing()], HOST_BACKEND, "")[0].seconds or 0.0
        if backend == HOST_BACKEND:
            return empty
        given = [self.transfer(size(p.checked_type), HOST_BACKEND, backend).seconds for p in function.params]
        taken = self.transfer(size(infer_expr(function.body)), backend, HOST_BACKEND).seconds
        return empty + self.launch(backend).seconds + sum(given) + taken

    def _measure(self, functions: Sequence[Function], backend: str, dtype: str) -> list[Measurement]:
        """The measurement of each of *functions*: known ones, and the others made now, each once."""
        facts = {**self._facts(backend), "precision": dtype}
        if (backend, dtype) not in self._known:
            self._known[backend, dtype] = self._store.measurements(facts)
        known = self._known[backend, dtype]
        keys = [key_of(function) for function in functions]
        missing = {key: f for key, f in zip(keys, functions, strict=True) if key not in known}
        names = list(missing)
        for start in range(0, len(names), BATCH):
            made = self._time({key: missing[key] for key in names[start : start + BATCH]}, backend, dtype)
            self._store.add(facts, made.values())
            known.update(made)
        self.measured += len(missing)
        return [known[key] for key in keys]

    def _time(self, functions: Mapping[str, Function], backend: str, dtype: str) -> dict[str, Measurement]:
        """Of what the host runs on images also with their channels innermost: the faster is how a model has it."""
        runs: dict[str, Run] = {}
        made: dict[str, Measurement] = {}
        for key, function in functions.items():
            try:
                runs[key] = ready(function, backend, self._build(dtype), self._threads)
            except ByocError as error:
                made[key] = Measurement(key, None, str(error))
                continue
            other = channels_innermost(function) if backend == HOST_BACKEND else None
            if other is not None:
                with suppress(ByocError):  # then the order of the model is the only one
                    runs[f"{key} {OTHER}"] = ready(other, backend, self._build(dtype), self._threads)
        clock = {} if self._clock is None else {"clock": self._clock}
        found = interleaved(runs, self._turns, **clock)
        made.update(
            {
                key: Measurement(key, min(found[key], found.get(f"{key} {OTHER}", math.inf)))
                for key in functions
                if key not in made
            }
        )
        return made
