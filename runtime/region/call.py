"""A region's call on certain arrays: at once, or started and waited for.

A function that can work while the host goes on has ``start(arrays, after) -> Pending``: it begins when the *after*
(what functions of any module gave for earlier starts) are done, fills the outputs, and gives something whose ``wait()``
returns when they are filled, or raises. Until then nobody writes to its inputs or touches its outputs, which is the
executor's promise (``overlap.py``). Where the backend fails, the host's function fills all outputs anew from the same
inputs; whatever was started on what the backend left behind is done again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from byoc.runtime.core.errors import ContractError, vendors_failure
from byoc.runtime.core.ndarray import NDArray, PackedFunction, read_only
from byoc.runtime.core.time_limit import time_limit
from byoc.runtime.region.checks import CallArrays, CheckedCall, check_returned, fill_outputs
from byoc.runtime.region.guard import RegionGuard
from byoc.runtime.region.locked import held, locked
from byoc.runtime.region.record import running
from byoc.runtime.region.vendor_time_limit import within_time_limit


class Pending(Protocol):
    """Work that was started."""

    def wait(self) -> None:
        """Return when the outputs are filled. Raises what went wrong.

        One that has ``keeps_time = True`` raises RunTimeoutError by itself when ``time_limit.seconds_left()`` is 0;
        others are waited for on a thread where a run has a time limit.
        """


Prepare = Callable[[PackedFunction, Sequence[np.ndarray]], Callable[[], object]]


class RegionCall:
    """One call, made as often as wanted, by one thread at a time.

    *prepare* makes a call without arguments of a function and arrays: :func:`bound` where it is not given.
    """

    def __init__(self, guard: RegionGuard, arrays: Sequence[np.ndarray], prepare: Prepare | None = None):
        self.is_started = False
        self.was_repaired = False  # the last start's outputs came from the host after all, when it was waited for
        self._guard, self._arrays = guard, list(arrays)
        self._prepare = prepare or bound
        self._count = guard.inputs_of(len(self._arrays))
        if self._count is not None:  # a function that writes to its inputs says so, where it uses numpy
            self._arrays[: self._count] = [read_only(NDArray(a)).numpy() for a in self._arrays[: self._count]]
        signature, constants = guard.region.signature, guard.constants
        self._given = CallArrays.checked(guard.checks, self._arrays, self._count, signature, constants)
        self._watch: CheckedCall | None = None
        self._seconds: float | None = None
        inputs = self._arrays
        if guard.signature is not None:
            inputs = self._arrays[: len(guard.signature.inputs)]
            guard.signature.bind_sizes(inputs)
        self._shapes = tuple(a.shape for a in inputs)
        self._ready: Callable[[], object] | None = None
        self._host: Callable[[], object] | None = None
        self._after: Sequence[RegionCall] = ()
        self._pending: Pending | None = None

    def __call__(self) -> None:
        """Fill the outputs."""
        known = self._guard.known_outputs()
        if known is not None:
            self._take(known)
            return
        if self._guard.may_try(self._shapes):
            try:
                self.run_backend()
                return
            except BaseException as error:  # whatever a vendor's code raises
                self._failed(error)
        self._run_host()

    def run_backend(self) -> None:
        """Fill the outputs by the backend's function. Raises whatever it raises: nothing stands in here."""
        if self._ready is None:
            self._ready = self._prepared()
        check_returned(self._guard.result_of(self._ready, self._seconds))

    def _take(self, known: Sequence[np.ndarray]) -> None:
        """Fill the outputs with what somebody gives for this run."""
        try:
            fill_outputs(self._arrays[len(self._arrays) - len(known) :], known)
        except ContractError as error:
            place = self._guard.region.describe(self._guard.symbol)
            raise ContractError(f"known outputs of {place}: {error}") from error

    def _prepared(self) -> Callable[[], object]:
        function, guard = self._guard.function(), self._guard
        self._seconds = guard.call_seconds(function)
        work = locked(self._prepare(function, self._given.arrays), guard.lock)
        return work if self._guard.checks is None else self._checked(work)

    def _checked(self, work: Callable[[], object]) -> CheckedCall:
        """The call *work* with the checks that were asked for."""
        assert self._guard.checks is not None
        return CheckedCall(work, self._guard.checks, self._given)

    def start(self, after: Sequence[RegionCall] = ()) -> None:
        """Begin to fill the outputs, when *after*, whose outputs are inputs here, are done."""
        self._after = [call for call in after if call.is_started]
        self.is_started, self.was_repaired = True, False
        try:
            if self._begun():
                return
            for call in self._after:
                call.wait()
            self()
        finally:
            self.is_started = self._pending is not None

    def _begun(self) -> bool:
        """Start the backend, where it can be started; False where the call is to be made at once."""
        if not self._guard.may_try(self._shapes) or self._guard.has_known_outputs:
            return False
        try:
            start = getattr(self._guard.function(), "start", None)
            if start is not None:
                if self._guard.checks is not None:
                    self._begin_watch(start)
                before = [call._pending for call in self._after if call._pending is not None]
                guard = self._guard
                with running(guard.doing), held(guard.lock, guard.place, guard.seconds or guard.wait_seconds):
                    self._pending = start(self._given.arrays, before)
        except BaseException as error:  # whatever a vendor's code raises
            self._failed(error)
        return self._pending is not None

    def _begin_watch(self, start: Callable[[Sequence[np.ndarray], Sequence[Pending]], Pending]) -> None:
        """Look at the arrays before a start, when nobody writes to the inputs any more."""
        for call in self._after:
            call.wait()
        self._watch = self._checked(lambda: start(self._given.arrays, []).wait())
        self._watch.begin()

    def wait(self) -> None:
        """Return when the outputs of the last start are filled."""
        pending = self._pending
        if not self.is_started or pending is None:
            return
        after, self._after = self._after, ()
        for call in after:
            call.wait()
        self._pending = None
        self.is_started = False
        is_stale = any(call.was_repaired for call in after)
        try:
            wait = locked(pending.wait, self._guard.lock)
            check_returned(self._guard.result_of(wait, self._guard.seconds or self._guard.wait_seconds))
            if self._watch is not None and not is_stale:
                self._watch.end()
        except BaseException as error:  # whatever a vendor's code raises
            self._pending, self.is_started = pending, True  # where a signal's handler raised it: it is to be abandoned
            failure = vendors_failure(error)
            if is_stale:
                self._pending, self.is_started = None, False
            else:
                self._failed(failure)
                self._pending, self.is_started = None, False
                self._run_host()
                self.was_repaired = True
        if is_stale:
            self()
            self.was_repaired = True

    def abandon(self, seconds: float | None = None) -> None:
        """Return when nothing is at work any more on the arrays, whatever became of it.

        After *seconds* it is left behind (``abandoned_work.py``), the arrays with it.
        """
        pending, self._pending = self._pending, None
        self.is_started, self._after = False, ()
        if pending is not None:
            with contextlib.suppress(Exception), time_limit(seconds):
                within_time_limit(pending.wait, self._guard.place)

    def _failed(self, error: BaseException) -> None:
        """The backend's code raised *error*. Raises it where a handler of signals did."""
        failure = vendors_failure(error)
        self._ready = None
        self._guard.failed(self._shapes, failure)

    def _run_host(self) -> None:
        if self._host is None:
            self._host = self._prepare(self._guard.host_function(), self._arrays)
        self._host()


def bound(function: PackedFunction, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """The call of *function* on *arrays* as a function without arguments."""
    bind = getattr(function, "bind", None)
    if bind is None:
        return called(function, arrays)
    work: Callable[[], object] = bind(arrays)
    if not callable(work):
        raise ContractError(
            f"its bind(arrays) gave a {type(work).__name__}, expected a function without arguments, which fills outputs"
        )
    return work


def called(function: PackedFunction, arrays: Sequence[np.ndarray]) -> Callable[[], object]:
    """As :func:`bound`, for a call that is made once."""
    return functools.partial(function, *map(NDArray, arrays))
