"""The guard of a region: its backend's function, the host's function that stands in for it, and what has failed.

One for each region of a library, whatever number of executors call it. Ensures: a backend that failed for inputs of
certain shapes is not tried again for these, and is for others, from its loading on (of the shapes that failed, the most
recent are known). One whose loading did not end in its time is not waited for again, whatever the shapes, and never
loaded a second time meanwhile. Where nothing stands in, the error is raised, with region, nodes and stage in its
sentence. Source: Paddle Lite's subgraph engines, which launch the origin program where they cannot build their own.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from byoc.runtime.core.errors import (
    HOST_ADVICE,
    ByocError,
    IndexOutsideError,
    InputError,
    OutOfMemoryError,
    RegionTimeoutError,
    RunAgainError,
    RunTimeoutError,
    UserError,
    vendors_text,
)
from byoc.runtime.core.fork import new_rlock
from byoc.runtime.core.ndarray import PackedFunction
from byoc.runtime.core.signature import Signature
from byoc.runtime.region.checks import CallChecks, checks_asked, guarded
from byoc.runtime.region.known_outputs import has_known_outputs, next_outputs
from byoc.runtime.region.locked import Lock, held
from byoc.runtime.region.record import (
    INITIALIZE,
    LAUNCH,
    WARM,
    Fallback,
    Region,
    Shapes,
    StageError,
    explained,
    is_reporting_running,
    running,
    stage_of,
)
from byoc.runtime.region.seconds import region_seconds, wait_seconds
from byoc.runtime.region.vendor_time_limit import SharedWork, within_time_limit

KEPT_FAILURES = 64  # shapes for which a backend is known to fail
KEPT_RECORDS = 256
Result = TypeVar("Result")


class RegionGuard:
    """*load* gives the backend's function, or raises StageError; *stand_in* gives the host's, where there is one.

    *lock* is held while the backend's code runs, where that is not for several threads at once. *constants* gives those
    that the function was initialised with, by their names.
    """

    def __init__(
        self,
        symbol: str,
        region: Region,
        load: Callable[[], PackedFunction],
        stand_in: Callable[[], PackedFunction] | None = None,
        signature: Signature | None = None,
        lock: Lock | None = None,
        constants: Callable[[], Mapping[str, np.ndarray]] = dict,
    ):
        self.symbol, self.region, self.signature = symbol, region, signature
        self.checks: CallChecks | None = checks_asked()
        self.seconds, self.wait_seconds = region_seconds(region.seconds), wait_seconds()
        self.fallbacks: deque[Fallback] = deque(maxlen=KEPT_RECORDS)
        self._load, self._stand_in, self.lock, self.constants = load, stand_in, lock, constants
        self.initialize_seconds: float | None = None  # what it took to load the function, once it is there
        self._loading = SharedWork(self._loaded, self._doing_load)
        self._hung: str | None = None  # what is known of a load that did not end in its time
        self._preparing: int | None = None  # the thread that prepares it
        self._reported_warming = False
        self._failures: OrderedDict[Shapes, None] = OrderedDict()
        self._lock = new_rlock()

    @property
    def has_stand_in(self) -> bool:
        """Whether the host runs the region where its backend fails."""
        return self._stand_in is not None

    def function(self) -> PackedFunction:
        """The backend's function, loaded and initialised. Raises StageError."""
        if self._loading.has_result:  # nothing is waited for, or said of it, in the calls that follow
            return self._loading()
        hung = self._hung
        if hung is not None and self._loading.is_under_way:
            raise StageError(INITIALIZE, RegionTimeoutError(hung))
        seconds = self.wait_seconds if self.seconds else None  # of a call: its load may take as long as a wait
        try:
            with running(f"{self.region.describe(self.symbol)} was loaded and initialised"):
                return within_time_limit(self._loading, self._doing_load, seconds)
        except RunTimeoutError as error:
            if isinstance(error, RegionTimeoutError):
                self._hung = str(error)
            raise StageError(INITIALIZE, error) from error
        except StageError as error:
            if isinstance(error.error, RegionTimeoutError):
                self._hung = str(error.error)
            raise

    @property
    def _doing_load(self) -> str:
        return f"{self.region.target} loaded and initialised {self._named}"

    def _loaded(self) -> PackedFunction:
        """What *load* gives, with the lock of its library."""
        with held(self.lock, self._doing_load, self.wait_seconds):
            start = time.perf_counter()
            function = guarded(self._load(), self.checks)
            self.initialize_seconds = time.perf_counter() - start
        return function

    @property
    def has_known_outputs(self) -> bool:
        """Whether somebody gives the outputs of its next run (``known_outputs.py``)."""
        return has_known_outputs(self.symbol, self.region.target)

    def known_outputs(self) -> list[np.ndarray] | None:
        """The outputs that somebody gives for this run; None where the backend is to compute them.

        Raises UserError for another number of them than the region has.
        """
        known = next_outputs(self.symbol, self.region.target)
        signature = self.region.signature or self.signature
        if known is not None and signature is not None and len(known) != len(signature.outputs):
            raise UserError(
                f"known outputs of {self.region.describe(self.symbol)}: expected {len(signature.outputs)} arrays, got "
                f"{len(known)}"
            )
        return known

    @property
    def place(self) -> str:
        """What a run waits for that waits for the region."""
        return f"{self.region.target} computed {self._named}"

    @property
    def _named(self) -> str:
        nodes, operators = self.region.nodes, self.region.operators
        return f"{self.symbol} ({'nodes' if nodes else 'operators'} {', '.join(nodes or operators)})"

    @property
    def doing(self) -> str:
        """What its backend does while it computes, for a message."""
        return f"{self.region.describe(self.symbol)} was running"

    def call_seconds(self, function: PackedFunction) -> float | None:
        """How long a call of *function*, the backend's, may take; one that can be started is a wait for a device."""
        return self.seconds or (self.wait_seconds if hasattr(function, "start") else None)

    def result_of(self, work: Callable[[], Result], seconds: float | None) -> Result:
        """What *work*, a call of the backend's function or a wait for one, gives within *seconds* and the run's time.

        Raises RunTimeoutError, RegionTimeoutError.
        """
        with running(self.doing) if is_reporting_running() else contextlib.nullcontext():
            return within_time_limit(work, self.place, seconds)

    def inputs_of(self, count: int) -> int | None:
        """How many of *count* arrays, inputs then outputs, are inputs; None where it is not known, or contradicted."""
        signature = self.region.signature
        if signature is None or count != len(signature.inputs) + len(signature.outputs):
            return None
        return len(signature.inputs)

    def host_function(self) -> PackedFunction:
        """The host's function for this region."""
        assert self._stand_in is not None
        return self._stand_in()

    def may_try(self, shapes: Shapes) -> bool:
        """Whether the backend is not known to fail for inputs of these shapes, and is not being prepared elsewhere."""
        preparing = self._preparing
        if preparing is not None and preparing != threading.get_ident():
            self._record_warming(shapes)
            return False
        if self._hung is not None and self.has_stand_in:
            return False
        return shapes not in self._failures

    def begin_preparing(self, thread: int) -> None:
        """Have *thread* alone use the backend, and all others the host's function, until :meth:`end_preparing`."""
        with self._lock:
            self._preparing, self._reported_warming = thread, False

    def end_preparing(self) -> None:
        """Have all threads use the backend again."""
        self._preparing = None

    def _record_warming(self, shapes: Shapes) -> None:
        """Keep that the host computes while the backend is being prepared, once a preparation."""
        if self._reported_warming:
            return
        self._reported_warming = True
        region = self.region
        message = f"is being prepared on {region.target}; the host computes until it is ready"
        self.fallbacks.append(Fallback(self.symbol, region.target, WARM, "", message, region.nodes, shapes))

    def failed(self, shapes: Shapes, error: Exception) -> None:
        """Record that the backend failed with *error*; where nothing stands in, raise it with its place.

        Raises RunAgainError where something does, and the backend may still be at work on the arrays.
        """
        stage, error = stage_of(error)
        is_time_over = isinstance(error, RegionTimeoutError)
        if isinstance(error, IndexOutsideError | RunTimeoutError) and not is_time_over:
            raise error  # the caller's, whoever computes
        region = self.region
        if not self.has_stand_in:
            if isinstance(error, InputError):
                raise error
            if isinstance(error, MemoryError):
                raise _out_of_memory(region.describe(self.symbol), stage, error) from error
            raise explained(self.symbol, region, stage, error) from error
        name = type(error).__name__
        with self._lock:
            self._failures[shapes] = None
            while len(self._failures) > KEPT_FAILURES:
                self._failures.popitem(last=False)
            self.fallbacks.append(
                Fallback(self.symbol, region.target, stage, name, _message(error), region.nodes, shapes)
            )
        if is_time_over and stage == LAUNCH:  # it may still write to the outputs of this call
            raise RunAgainError(f"{region.describe(self.symbol)} is the host's from now on: {error}") from error


def _out_of_memory(region: str, stage: str, error: MemoryError) -> OutOfMemoryError:
    """*error* with its place, where nothing stands in for a *region* that needs more memory than there is."""
    text = str(error) if isinstance(error, ByocError) else vendors_text(error)
    return OutOfMemoryError(
        f"{region} failed at {stage}, it needs more memory than this process can have: {text}; {HOST_ADVICE}"
    )


def _message(error: Exception) -> str:
    """What *error* says, in one line; of somebody else's class without the class, which stands beside it."""
    if isinstance(error, ByocError):
        return str(error)
    name, text = type(error).__name__, vendors_text(error)
    return text.removeprefix(f"{name}: ")
