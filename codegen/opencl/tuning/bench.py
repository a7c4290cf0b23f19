"""The device on which a backend's kernels are tried: where times hold, what is kept there, and its thresholds.

Records lie in the database of tuning, which ``byoc tune --export`` hands on, and in the device's own cache file beside
its binaries, which ``byoc cache merge`` hands on: either alone is enough for a second process to try nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from byoc.codegen.kernel.choice import Choice
from byoc.codegen.opencl.tuning.crossover import Crossovers, EmitWith, measured_crossovers
from byoc.codegen.opencl.tuning.trials import Alone, Emit, clear_winner, device_trial_runner
from byoc.codegen.tune.context import SCHEDULES as C_SCHEDULES
from byoc.codegen.tune.context import Context, schedules_digest
from byoc.codegen.tune.record import Record, Trial
from byoc.codegen.tune.trials import Try
from byoc.runtime.core.errors import ByocError
from byoc.runtime.opencl.devices import OpenDevice
from byoc.runtime.opencl.kernel_cache import identity_of
from byoc.runtime.opencl.settings import settings_of

SCHEDULES = (
    *C_SCHEDULES,
    "byoc.codegen.kernel",
    "byoc.codegen.opencl",
    "byoc.codegen.opencl.cpu",
    "byoc.codegen.opencl.device",
    "byoc.codegen.opencl.images",
    "byoc.codegen.opencl.products",
    "byoc.codegen.opencl.rows",
    "byoc.codegen.opencl.winograd",
    "byoc.codegen.opencl.tuning",  # how times were measured decides who won
)
THRESHOLDS = "thresholds"


@dataclass(frozen=True)
class DeviceBench:
    """Kernels on *opened*, made for devices of *facts* (the backend's own, by name) by *alone* and *emit*.

    *emit_with* writes them with given thresholds.
    """

    opened: OpenDevice
    facts: Mapping[str, str]
    alone: Alone
    emit: Emit
    emit_with: EmitWith
    threads: int = 1

    @property
    def place(self) -> str:
        """The device's name."""
        return self.opened.info.name

    def context(self, threads: int) -> Context:
        """Where times hold: this device with its driver, our version, and the sources of the schedules."""
        own = identity_of(self.opened.info)
        return Context.of({**vars(own), **self.facts, "schedules": schedules_digest(SCHEDULES)})

    def recall(self, kernel: str) -> Record | None:
        """The record of *kernel* in the device's cache file."""
        kept = settings_of(self.opened).get(self._key(kernel))
        if not isinstance(kept, str):
            return None
        try:
            record = Record.from_line(kept)
        except (ByocError, ValueError, LookupError, TypeError):
            return None
        return record if record.kernel == kernel else None

    def keep(self, record: Record) -> None:
        """Keep *record* in the device's cache file."""
        settings_of(self.opened).put(self._key(record.kernel), record.to_line())

    def winner(self, trials: Sequence[Trial], expected: Choice) -> Choice:
        """The choice that won clearly."""
        return clear_winner(trials, expected)

    def trial_runner(self, rounds: int) -> AbstractContextManager[Try]:
        """Trials on the device."""
        return device_trial_runner(self.alone, self.emit, rounds, self._device)

    @property
    def _device(self) -> str:
        """The device, for a process that opens it again."""
        return str(self.opened.info.index)

    def crossovers(self, measure: bool) -> Crossovers:
        """Where schedules of reductions change over here: as kept, else, with *measure*, measured now and kept."""
        name = f"{THRESHOLDS}.{self.context(1).digest}"
        kept = Crossovers.from_json(settings_of(self.opened).get(name))
        if kept is not None or not measure:
            return kept or Crossovers()
        found = measured_crossovers(self.emit_with, self._device)
        if not found.failures:
            settings_of(self.opened).put(name, found.to_json())
        return found

    def _key(self, kernel: str) -> str:
        return f"tuning.{self.context(1).digest}.{hashlib.sha256(kernel.encode()).hexdigest()[:32]}"
