"""The cost models that ask this machine: ``analytic`` by a calibration, and ``measured``, kept in the cache folder."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping

import byoc
from byoc.codegen.c.toolchain.compiler import find_compiler
from byoc.codegen.c.toolchain.object_cache import cache_dir
from byoc.codegen.tune.context import cache_sizes, context_of, processor_model, schedules_digest
from byoc.contract.registration import BACKENDS, get_backend
from byoc.driver.costs.alone import build_alone
from byoc.driver.costs.calibrate import BUSY, calibrate
from byoc.driver.costs.measured import MeasuredModel
from byoc.driver.costs.store import FOLDER, Facts, Store
from byoc.driver.costs.timing import Build
from byoc.errors import ByocError, CompilerNotFoundError, DeviceError
from byoc.partition.costs import AnalyticModel, CostModel, CostSpec, cost_model
from byoc.partition.costs.model import HOST_BACKEND
from byoc.partition.costs.profile import GPU_DEFAULTS, NUMPY_DEFAULTS, PROFILES, Profile
from byoc.partition.place import in_host_memory
from byoc.runtime.core.processor import usable_processors
from byoc.runtime.opencl.devices import open_device

BUSY_SECONDS = 30 * 60  # so long the profile of a busy machine is used, before it is calibrated again
EDITION = "2"  # of what is measured and how: another one is measured anew
Tell = Callable[[str], object]


class Machine:
    """This machine's numbers, for *threads* of host code (all processors by default), in *store*.

    *tell* hears of what takes seconds.
    """

    def __init__(self, threads: int | None = None, store: Store | None = None, tell: Tell = lambda stage: None):
        self._threads, self._tell = threads or usable_processors(), tell
        self._store = store or Store(cache_dir() / FOLDER)
        self._analytic = AnalyticModel(find=self.profile)
        self.problems: list[str] = []  # why something could not be measured or kept

    def words(self) -> Mapping[str, Callable[[], CostModel]]:
        """The names that users may write for costs, and what makes the models."""
        return {"analytic": lambda: self._analytic, "measured": self._measured, "typical": AnalyticModel}

    def costs(self, spec: CostSpec, backends: Iterable[str]) -> CostModel:
        """The model that *spec* means for *backends*. Raises PartitionError as ``partition.costs.cost_model`` does."""
        return cost_model(spec, backends, self.words())

    def profile(self, backend: str) -> Profile | None:
        """What the device of *backend* can do: as kept, else by a calibration that takes seconds to a minute.

        What a busy machine gave is kept for ``BUSY_SECONDS``, and told among the problems each time that it is used.
        None where nothing of it can be built here, or its vendor has registered one.
        """
        if backend in PROFILES and backend not in CALIBRATED:
            return None
        facts = self.facts(backend)
        known = self._kept(facts)
        if known is not None:
            return known
        self._tell(f"calibrating {backend}, once")
        sizes = cache_sizes()
        caches = [sizes[level] for level in sorted(sizes) if level > 1] if backend == HOST_BACKEND else []
        base = PROFILES.get(backend) or (NUMPY_DEFAULTS if in_host_memory(backend) else GPU_DEFAULTS)
        try:
            found = calibrate(backend, build_alone, base, caches, self._threads)
        except ByocError as error:
            self.problems.append(f"{backend} is not calibrated: {error}")
            return None
        problem = self._store.keep_profile(facts, found)
        if problem is not None:
            self.problems.append(problem)
        self._tell_of_busy(backend, found)
        return found

    def _kept(self, facts: Facts) -> Profile | None:
        """What was found before; of a busy machine only for a while."""
        known = self._store.profile(facts)
        if known is None or not known.source.endswith(BUSY):
            return known
        if self._store.age(facts) > BUSY_SECONDS:
            return None
        self._tell_of_busy(facts["backend"], known)
        return known

    def _tell_of_busy(self, backend: str, found: Profile) -> None:
        if found.source.endswith(BUSY):
            again = f"it is calibrated again after {BUSY_SECONDS // 60} minutes"
            self.problems.append(f"{backend}: {found.source}; {again}")

    def facts(self, backend: str) -> Facts:
        """Where a profile of *backend* holds."""
        return {
            "backend": backend,
            "edition": EDITION,
            "version": byoc.__version__,
            "threads": str(self._threads),
            "code": _code_of(backend),
            "machine": f"{platform.system()} {platform.machine()}",
            "processor": processor_model(),
            "device": _device_of(backend),
            "compiler": _compiler(),
        }

    def _measured(self) -> CostModel:
        def facts(backend: str) -> Facts:
            return {**self.facts(backend), "schedules": schedules_digest()}

        return MeasuredModel(self._analytic, self._store, facts, _builds, self._threads)


# backends whose registered profile is only a default
CALIBRATED = frozenset([HOST_BACKEND, "opencl", "json"])


def _builds(precision: str) -> Build:
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
        return repr(open_device().info)
    except DeviceError:
        return ""
