"""Compiled candidates for one kernel on the device: compared with the first of them, and timed in turns by its clock.

A batch is data, which ``tune/worker_process.py`` runs in a process of its own. A candidate that the driver refuses to
build or to launch, one whose work-group its kernel does not take, and one with another result has failed, for that
reason, and the others go on. Inputs and outputs lie on the device and are the same for all candidates; a time is the
sum of those of a run's kernels, by events.

Times are to be those within a model. There a kernel's weights come from memory, as those of all the other kernels have
passed through the caches since its last run, while its input, its temporaries and its output lie in memory that the
kernel before has just used. So constants lie in several places, which take turns, and all else in one. And there the
next kernel waits in the queue: the host waits for the runs of a sample together, or threads of a processor's driver
fall asleep in between, and a kernel's time is then that of waking them.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from byoc.codegen.tune.arrays import MOST_COPIES, ROTATED_BYTES
from byoc.codegen.tune.measure import FIRST_ROUNDS, Run, Times, measure
from byoc.codegen.tune.trial_batch import Outcome, Started, Timed, agrees
from byoc.runtime.core.device_event import DeviceEvent
from byoc.runtime.core.errors import ByocError, DeviceError, DeviceMemoryError
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.opencl.build import build_trial
from byoc.runtime.opencl.device_array import DeviceArray
from byoc.runtime.opencl.devices import OpenDevice, import_pyopencl, open_device
from byoc.runtime.opencl.launches import FunctionPlan
from byoc.runtime.opencl.other_constants import with_constants
from byoc.runtime.opencl.session import Session, StartedCall

if TYPE_CHECKING:
    import pyopencl

ROUND_SECONDS = 0.05  # that a candidate is worth in each round; a long kernel has fewer rounds
HOPELESS = 2.0  # times the time of the first candidate: what is not timed in turns
BLOCK = 65521  # random numbers that are repeated where more are needed; a prime, so that rows differ
MOST_PROGRAMS = 256  # that are kept built
MOST_REPEATS = 50  # of a run in a sample: a call costs the host many times what a short kernel takes
COPY = "copy"  # how the events that are no kernels begin


@dataclass(frozen=True)
class DeviceCandidate:
    """A candidate: source, the plan of its launches, and its constants in the order of its signature.

    *uncounted* are kernels whose time is no part of the candidate's.
    """

    source: str
    plan: FunctionPlan
    constants: tuple[np.ndarray, ...] = ()
    uncounted: frozenset[str] = frozenset()


@dataclass(frozen=True)
class InputData:
    """What an input holds: numbers as activations have them, or zeros where it *indexes* others."""

    shape: tuple[int, ...]
    dtype: str
    indexes: bool = False

    def array(self, random: np.random.Generator) -> np.ndarray:
        """The numbers."""
        dtype, size = numpy_dtype(self.dtype), math.prod(self.shape)
        if self.indexes:
            return np.zeros(self.shape, dtype)
        block: np.ndarray
        if dtype.kind in "biu":
            block = random.integers(0, 2 if dtype.kind == "b" else 5, min(size, BLOCK))
        else:
            block = random.standard_normal(min(size, BLOCK), "float32")
        return np.resize(block.astype(dtype), self.shape)


@dataclass(frozen=True)
class DeviceTrialBatch:
    """The candidates *compiled* to be timed on *inputs* in at most so many *rounds*, on the device of that name.

    *device* is as the backend's option: an index, a kind or a name.
    """

    compiled: tuple[DeviceCandidate, ...]
    inputs: tuple[InputData, ...]
    rounds: int
    device: str = ""

    def run(self, started: Started) -> list[Outcome]:
        """What became of each candidate, in their order, run in this process."""
        return _Run(self, open_device(self.device), started).outcomes()

    def only(self, numbers: Sequence[int]) -> DeviceTrialBatch:
        """The batch of these of its candidates."""
        return replace(self, compiled=tuple(self.compiled[k] for k in numbers))


class _ReadyCandidate:
    """A candidate on the device, ready to run.

    *total* are the seconds that its kernels have taken so far in runs that were finished, *last* those of the last run.
    """

    def __init__(
        self, compiled: DeviceCandidate, program: pyopencl.Program, opened: OpenDevice, arrays: Sequence[DeviceArray]
    ):
        self.events: list[DeviceEvent] = []
        self.started: list[StartedCall] = []
        self.constants = tuple(map(NDArray, compiled.constants))
        self.sessions = [Session(compiled.plan, program, opened, self.constants, self.events.extend)]
        self.arrays, self.last, self.total = arrays, 0.0, 0.0
        self.uncounted = compiled.uncounted

    def run(self, times: int) -> None:
        """Run so many *times*, one behind the other, and wait for all. Raises DeviceError."""
        for _ in range(times):
            self.start(self.sessions[0])
        self.finish()

    def start(self, session: Session) -> None:
        """Put a run of *session*, one of those of this candidate, into the queue. Raises DeviceError."""
        self.started.append(session.start(self.arrays))

    def finish(self) -> None:
        """Wait for the runs that were started, and count what they took. Raises DeviceError.

        The first of several, which may have had to wake threads, counts as the mean of the others.
        """
        started, self.started = self.started, []
        taken = []
        for call in started:
            self.events.clear()
            call.wait()
            counted = (e for e in self.events if not e.name.startswith(COPY) and e.name not in self.uncounted)
            taken.append(sum(e.end - e.begin for e in counted))
        if taken:
            self.total += statistics.fmean(taken[1:] or taken) * len(taken)
            self.last = taken[-1]

    def calls(self, cache: int) -> list[Run]:
        """Calls that start a run each, with constants that a *cache* of so many bytes no longer holds in their turn.

        As far as the device has room for them. Raises DeviceError.
        """
        wanted = places_of(sum(c.nbytes for c in self.constants), cache, self.last)
        with suppress(DeviceMemoryError):
            while len(self.sessions) < wanted:
                self.sessions.append(with_constants(self.sessions[0], self.constants))
        return [functools.partial(self.start, session) for session in self.sessions]


def places_of(size: int, cache: int, seconds: float) -> int:
    """In how many places constants of *size* bytes lie for a kernel of so many *seconds*.

    As many as fill ROTATED_BYTES times the *cache* of the device; fewer where runs with all of them would take longer
    than a round, since what a long kernel computes outweighs what it reads.

    >>> places_of(9 << 20, 33 << 20, 0.001), places_of(1 << 10, 33 << 20, 0.001), places_of(1 << 20, 33 << 20, 0.02)
    (8, 16, 2)
    >>> places_of(0, 33 << 20, 0.001), places_of(9 << 20, 0, 0.001)
    (1, 1)
    """
    if not size or not cache:
        return 1
    fitting = int(ROUND_SECONDS / seconds) if seconds else MOST_COPIES
    return min(math.ceil(ROTATED_BYTES * cache / size), MOST_COPIES, max(fitting, 2))


@functools.lru_cache(maxsize=MOST_PROGRAMS)
def _program(source: str, opened: OpenDevice) -> pyopencl.Program:
    """The program of *source*, which candidates with other work-groups share."""
    return build_trial(source, opened)


class _Run:
    def __init__(self, batch: DeviceTrialBatch, opened: OpenDevice, started: Started):
        self.batch, self.opened, self.started = batch, opened, started
        self.sizes: Mapping[str, int] = {}
        self.candidates: dict[int, _ReadyCandidate] = {}
        self.found: dict[int, Outcome] = {}

    def outcomes(self) -> list[Outcome]:
        self._check()
        alive = self._promising()
        if alive:
            cache = int(self.opened.device.global_mem_cache_size)
            calls = [self.candidates[n].calls(cache) for n in alive]
            places = max(map(len, calls))
            first = max(self.candidates[n].last for n in alive) * places
            rounds = int(self.batch.rounds * ROUND_SECONDS / first) if first else self.batch.rounds
            rounds = max(FIRST_ROUNDS, min(self.batch.rounds, rounds))
            repeats = max(MOST_REPEATS // places, 1)
            times = measure(calls, rounds, self._clock, lambda k: self.started(alive[k]), repeats)
            self.found.update(zip(alive, map(_timed, times), strict=True))
        return [self.found[n] for n in range(len(self.batch.compiled))]

    def _clock(self) -> float:
        """Seconds that the device has computed, when all that was started is done."""
        for candidate in self.candidates.values():
            candidate.finish()
        return sum(c.total for c in self.candidates.values())

    def _check(self) -> None:
        """Run each candidate, and compare its results with those of the first that ran."""
        random = np.random.default_rng(0)
        inputs, outputs, expected = None, None, None
        shaped = [np.broadcast_to(np.zeros((), numpy_dtype(d.dtype)), d.shape) for d in self.batch.inputs]
        for number, compiled in enumerate(self.batch.compiled):
            self.started(number)
            try:
                program = _program(compiled.source, self.opened)
                self.sizes = compiled.plan.signature.bind_sizes(shaped)
                self._require_groups(compiled.plan, program)
                if inputs is None or outputs is None:
                    signature = compiled.plan.signature
                    probe = Session(compiled.plan, program, self.opened, ())
                    inputs = [self._on_device(probe, data.array(random)) for data in self.batch.inputs]
                    shapes = [(spec.concrete_shape(self.sizes), numpy_dtype(spec.dtype)) for spec in signature.outputs]
                    outputs = [probe.empty_on_device(shape, dtype) for shape, dtype in shapes]
                for array in outputs:  # what is not filled must not look as the last candidate left it
                    array.fill(np.full(array.shape, 0xFF, np.uint8).astype(array.dtype))
                ready = _ReadyCandidate(compiled, program, self.opened, (*inputs, *outputs))
                ready.run(1)  # some drivers compile now
                ready.run(2)  # the second finds threads awake
            except ByocError as error:
                self.found[number] = f"failed: {error}"
                continue
            results = [array.numpy() for array in outputs]
            expected = results if expected is None else expected
            if all(agrees(r, e) for r, e in zip(results, expected, strict=True)):
                self.candidates[number] = ready
            else:
                self.found[number] = "failed: its result is another one"

    def _require_groups(self, plan: FunctionPlan, program: pyopencl.Program) -> None:
        """Raises DeviceError where a kernel does not take the work-group that it is to have."""
        cl = import_pyopencl()
        for variant in (launch.choose(self.sizes) for launch in plan.launches):
            kernel = cl.Kernel(program, variant.kernel)
            most = int(kernel.get_work_group_info(cl.kernel_work_group_info.WORK_GROUP_SIZE, self.opened.device))
            if variant.local > most:
                raise DeviceError(f"its kernel takes at most {most} work-items a group, and {variant.local} are chosen")

    def _on_device(self, session: Session, array: np.ndarray) -> DeviceArray:
        made = session.empty_on_device(array.shape, array.dtype)
        made.fill(array)
        return made

    def _promising(self) -> list[int]:
        """The candidates to be timed in turns: none that takes HOPELESS times what the first takes."""
        numbers = list(self.candidates)
        if not numbers:
            return []
        limit = HOPELESS * self.candidates[numbers[0]].last
        for n in numbers[1:]:
            last = self.candidates[n].last
            if last > limit:
                self.found[n] = Timed(last, last, dropped=True)
        return [n for n in numbers if n not in self.found]


def _timed(times: Times) -> Timed:
    return Timed(times.shortest, times.median, times.dropped)
