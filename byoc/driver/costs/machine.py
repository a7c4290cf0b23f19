"""The cost models that ask this machine, by numbers kept in the cache folder.

``auto`` takes what a calibration found before, of all devices that are asked for, and else typical numbers, since a
calibration takes longer than anybody who asks for a plan expects to wait; ``analytic`` calibrates first what was not;
``measured`` builds and times the kernels themselves.
"""

from __future__ import annotations

import functools
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from byoc.base import __version__
from byoc.base.progress import Progress, silent
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.codegen.tune.context import cache_sizes, context_of, processor_model, schedules_digest
from byoc.contract.registration import BACKENDS, get_backend
from byoc.driver.costs.store import FOLDER, CostStore, Facts
from byoc.errors import ByocError, CompilerNotFoundError, DeviceError
from byoc.ir.module import IRModule
from byoc.partition.calls import calls_of, functions_of, inner_calls
from byoc.partition.costs import AnalyticModel, CostModel, CostSpec, cost_model
from byoc.partition.costs.analytic import registered_profile
from byoc.partition.costs.model import HOST_BACKEND, backend_of
from byoc.partition.costs.profile import GPU_DEFAULTS, NUMPY_DEFAULTS, PROFILES, Profile
from byoc.partition.costs.work import work_of
from byoc.partition.options import MEASURE_TIME
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.graph.executor_base import thread_count

if TYPE_CHECKING:
    from byoc.driver.costs.timing import Build

BUSY_SECONDS = 30 * 60  # so long a profile in which something is typical is used, before it is calibrated again
LONGEST_SECONDS = 120.0  # of all calibrations of a plan, or of a command
EDITION = "3"  # of what is measured and how: another one is measured anew
_FOUND: dict[tuple[tuple[str, str], ...], Profile] = {}  # what this process found, where it cannot be kept for others


class CalibrationTime:
    """The *seconds* that all calibrations together may take, from the first on; *shares* of them are to come."""

    def __init__(
        self, seconds: float = LONGEST_SECONDS, shares: int = 1, clock: Callable[[], float] = time.perf_counter
    ):
        self._seconds, self._clock, self.shares = seconds, clock, shares
        self._end: float | None = None

    def next_end(self) -> float:
        """When the calibration that begins now has to end: at its share of what is left."""
        now = self._clock()
        if self._end is None:
            self._end = now + self._seconds
        end = now + (self._end - now) / max(self.shares, 1)
        self.shares -= 1
        return end

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self._end is not None and self._clock() > self._end


class MachineCosts:
    """This machine's numbers, for *threads* of host code (all processors by default; a function is asked when it is
    known that somebody wants them), in *store*.

    *progress* is called with each slow step; *time_limit* is what all calibrations may take, two minutes by default,
    *measure_time* the seconds in which ``measured`` builds and times kernels.
    """

    def __init__(
        self,
        threads: int | Callable[[], int] | None = None,
        store: CostStore | None = None,
        progress: Progress = silent,
        time_limit: CalibrationTime | None = None,
        measure_time: float = MEASURE_TIME,
    ):
        self._measure_time = measure_time
        self._asked_threads, self._progress = threads or usable_processors(), progress
        self._time_limit = time_limit
        self._backends: tuple[str, ...] = ()  # that costs are asked of
        self._store = store or CostStore(cache_dir() / FOLDER)
        self._analytic = AnalyticModel(find=self.profile)
        self.problems: list[str] = []  # why something could not be measured or kept, and what stood in for it

    @functools.cached_property
    def _threads(self) -> int:
        asked = self._asked_threads
        return asked() if callable(asked) else asked

    def costs(self, spec: CostSpec, backends: Iterable[str]) -> CostModel:
        """The model that *spec* means for *backends*. Raises PartitionError as ``partition.costs.cost_model`` does."""
        asked = dict.fromkeys([*map(backend_of, backends), HOST_BACKEND])
        self._backends = tuple(asked)
        named = {backend_of(str(name)) for name in spec} if isinstance(spec, Mapping) else set()
        words: dict[str, Callable[[], CostModel]] = {
            "auto": lambda: self._automatic([name for name in asked if name not in named]),
            "analytic": lambda: self._analytic,
            "measured": self._measured,
            "typical": AnalyticModel,
        }
        return cost_model(spec, list(asked), words)

    def profile(self, backend: str) -> Profile | None:
        """What the device of *backend* can do: as kept, else by a calibration that takes seconds to a minute.

        What lacks something, for a busy machine or for the time limit, is kept for ``BUSY_SECONDS``, and reported
        among the problems each time that it is used. None where nothing of it can be built here, or its vendor has
        registered one.
        """
        if not is_calibrated(backend):
            return None
        known = self.kept(backend)
        if known is not None:
            self._report_incomplete(backend, known)
        return known or self.calibrate(backend)

    def kept(self, backend: str) -> Profile | None:
        """What was found before; what lacks something only for a while, by other processes."""
        from byoc.driver.costs.calibrate import is_incomplete

        facts = self.facts(backend)
        known = self._store.profile(facts)
        if known is None or is_incomplete(known):
            known = _FOUND.get(self._place(facts)) or known
        if known is not None and is_incomplete(known):
            if self._place(facts) not in _FOUND and self._store.age(facts) > BUSY_SECONDS:
                return None
        return known

    def kept_in_full(self, backend: str) -> Profile | None:
        """What was found before, if nothing of it is lacking."""
        from byoc.driver.costs.calibrate import is_incomplete

        known = self.kept(backend)
        return None if known is None or is_incomplete(known) else known

    def calibrate(self, backend: str) -> Profile | None:
        """What is found now, which is kept; None where nothing of it can be built here, which the problems state.

        What lacks something does not take the place of a profile that is kept and whole, and what lacks everything of
        none, which this process alone keeps; what is kept is then the answer.
        """
        from byoc.driver.costs.alone import build_alone
        from byoc.driver.costs.calibrate import Calibrator, is_incomplete, is_typical
        from byoc.partition.place import in_host_memory

        facts = self.facts(backend)
        sizes = cache_sizes()
        caches = [sizes[level] for level in sorted(sizes) if level > 1] if backend == HOST_BACKEND else []
        base = registered_profile(backend) or (NUMPY_DEFAULTS if in_host_memory(backend) else GPU_DEFAULTS)
        calibrator = Calibrator(backend, build_alone, base, caches, self._threads)
        calibrator.progress, calibrator.until = self._progress, self._next_end(backend)
        try:
            found = calibrator.profile()
        except ByocError as error:
            self.problems.append(f"{backend} is not calibrated: {error}")
            return None
        before = self._store.profile(facts)
        if before is not None and (is_typical(found) or (is_incomplete(found) and not is_incomplete(before))):
            self.problems.append(f"{backend}: {found.source}; what was measured before stays")
            return before
        problem = None if is_typical(found) else self._store.keep_profile(facts, found)
        if problem is not None:
            self.problems.append(problem)
        _FOUND.pop(self._place(facts), None)
        if problem is not None or is_incomplete(found):
            _FOUND[self._place(facts)] = found
        self._report_incomplete(backend, found)
        return found

    def _next_end(self, backend: str) -> float:
        """When the calibration of *backend* has to end, so that all that are asked for get their share."""
        if self._time_limit is None:
            others = (name for name in self._backends if name != backend and is_calibrated(name))
            self._time_limit = CalibrationTime(shares=1 + sum(self.kept(name) is None for name in others))
        return self._time_limit.next_end()

    def facts(self, backend: str) -> Facts:
        """Where a profile of *backend* holds."""
        return {
            "backend": backend,
            "edition": EDITION,
            "version": __version__,
            "threads": str(self._threads) if backend == HOST_BACKEND else "",
            "code": _code_of(backend),
            "machine": f"{platform.system()} {platform.machine()}",
            "processor": processor_model(),
            "device": _device_of(backend),
            "compiler": _compiler(),
        }

    def _automatic(self, backends: Iterable[str]) -> CostModel:
        """By the calibrations of *backends*; by typical numbers of all where one of them has none."""

        @functools.cache
        def known() -> Mapping[str, Profile]:
            found = {name: self.kept(name) for name in backends if is_calibrated(name)}
            lacking = [name for name, profile in found.items() if profile is None]
            if lacking:
                times = f"{self._threads} thread{'s' if self._threads > 1 else ''}"
                self.problems.append(
                    f"costs are typical numbers: this machine is not calibrated for {', '.join(lacking)} ({times} of "
                    f"host code); byoc calibrate -t {','.join(found)} does it, once"
                )
                return {}
            profiles = {name: profile for name, profile in found.items() if profile is not None}
            for name, profile in profiles.items():
                self._report_incomplete(name, profile)
            return profiles

        return AnalyticModel(find=lambda backend: known().get(backend))

    def _place(self, facts: Facts) -> tuple[tuple[str, str], ...]:
        return (("folder", str(self._store.folder)), *sorted(facts.items()))

    def _report_incomplete(self, backend: str, found: Profile) -> None:
        from byoc.driver.costs.calibrate import is_incomplete

        if is_incomplete(found):
            again = f"until it is calibrated again, after {BUSY_SECONDS // 60} minutes or by byoc calibrate"
            self.problems.append(f"{backend}: {found.source}; typical numbers stand in {again}")

    def _measured(self) -> CostModel:
        from byoc.driver.costs.measured import MeasuredModel

        def facts(backend: str) -> Facts:
            return {**self.facts(backend), "schedules": schedules_digest()}

        model = MeasuredModel(self._analytic, self._store, facts, _builds, self._threads)
        model.progress, model.limit = self._progress, self._measure_time
        model.late = self._report_late
        return model

    def _report_late(self) -> None:
        problem = (
            f"measuring took longer than {self._measure_time:g} s, and what was not measured counts by estimates: plan "
            "again, which measures on from there, or give it more time (measure_time, --measure-time)"
        )
        if problem not in self.problems:
            self.problems.append(problem)


# backends whose registered profile is only a default
CALIBRATED = frozenset([HOST_BACKEND, "opencl", "json"])


def is_calibrated(backend: str) -> bool:
    """Whether this machine is asked what the device of *backend* can do: not where its vendor has said it."""
    return backend in CALIBRATED or backend not in PROFILES


def threads_for(mod: IRModule) -> int:
    """The threads on which the host runs all of the typed module *mod*, where nobody says otherwise."""
    calls = (inner for _, func in functions_of(mod) for call in calls_of(func) for inner in inner_calls(call))
    work = [work_of(call) for call in calls]
    return thread_count(None, sum(w.elements if w.product is None else w.product.multiply_adds for w in work))


def _builds(precision: str) -> Build:
    from byoc.driver.costs.alone import build_alone

    return lambda mod: build_alone(mod, precision)


def _code_of(backend: str) -> str:
    """Where the code of a backend comes from."""
    if backend not in BACKENDS:
        get_backend(backend)
    found = BACKENDS.get(backend)
    return "" if found is None else f"{type(found).__module__}.{type(found).__qualname__}"


def _compiler() -> str:
    """The compiler, its flags and the machine that it makes code for; empty without one."""
    try:
        facts = context_of(find_compiler(), ()).to_json()
    except CompilerNotFoundError:
        return ""
    return " ".join(f"{k}={facts[k]}" for k in ("compiler", "flags", "machine", "caches"))


def _device_of(backend: str) -> str:
    """The name and driver of the device, where the backend has one of its own that we know."""
    found = BACKENDS.get(backend)
    if found is None or "opencl" not in found.devices:
        return ""
    try:
        from byoc.runtime.opencl.devices import open_device  # a part that an installation may leave out

        return repr(open_device().info)
    except (DeviceError, ModuleNotFoundError):
        return ""
