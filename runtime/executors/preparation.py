"""Devices that are prepared by a thread of their own, while the host computes their regions.

Kernels are built, constants go to the device and memory is taken there by a run that nobody waits for. Until it has
ended, calls from all other threads take the host's versions of these regions (``RegionGuard.begin_preparing``); then
they take the device's. Source: MNN's ``Session_Backend_Auto``, which runs on the CPU while kernels are tuned.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import FALLBACK_ADVICE, UserError
from byoc.runtime.core.ndarray import NDArray
from byoc.runtime.core.signature import Signature
from byoc.runtime.executors.prepared_inputs import ones
from byoc.runtime.region.guard import RegionGuard

if TYPE_CHECKING:
    from byoc.runtime.graph.executor_base import Executor
    from byoc.runtime.modules.metadata import MetadataModule


def device_guards(module: MetadataModule) -> list[RegionGuard]:
    """The guards of the regions below *module* that run on devices of their own, those inside of control flow too.

    Raises UserError for one that the host has no version of, and where there is none.
    """
    found = _guards_below(module)
    if not found:
        raise UserError("no region of this model runs on a device: there is nothing to prepare in the background")
    alone = next((guard for guard in found if not guard.has_stand_in), None)
    if alone is not None:
        raise UserError(
            f"{alone.region.describe(alone.symbol)} cannot be prepared in the background, since the host has no "
            f"version of it: {FALLBACK_ADVICE}"
        )
    return found


def _guards_below(module: MetadataModule) -> list[RegionGuard]:
    found = []
    for symbol in module.regions:
        owner = module.owner(symbol)
        if owner is not None and owner.can_start:
            found.append(module.guard(symbol))
    return [*found, *(g for root in _roots_of_parts(module) for g in _guards_below(root))]


def _roots_of_parts(module: MetadataModule) -> Iterator[MetadataModule]:
    """The modules of the parts of control flow below *module*, without those of parts inside of parts."""
    from byoc.runtime.modules.metadata import MetadataModule

    for below in module.walk():
        yield from (root for root in below.parts_modules if isinstance(root, MetadataModule))


def roots_below(module: MetadataModule) -> list[MetadataModule]:
    """The modules at the roots of all parts of control flow below *module*, those inside of parts too."""
    roots = list(_roots_of_parts(module))
    return [*roots, *(below for root in roots for below in roots_below(root))]


def prepare_parts(module: MetadataModule, sizes: Sequence[Sizes]) -> None:
    """Have the regions ready that no run has reached: those of branches that it did not take.

    A region whose sizes are numbers, or named as *sizes* are, runs once for each of these, on ones. Of another the
    kernels are built, and its memory is taken when its sizes come. What fails here the run that needs it reports.
    """
    for root in _roots_of_parts(module):
        for symbol in root.regions:
            owner = root.owner(symbol)
            guard = root.guard(symbol) if owner is not None and owner.can_start else None
            if guard is None or guard.initialize_seconds is not None:
                continue
            calls = list(_calls_on_ones(guard.region.signature or guard.signature, sizes))
            with contextlib.suppress(Exception):  # whatever a vendor's code raises
                guard.function()
                for arrays in calls:
                    root[symbol](*arrays)
        prepare_parts(root, sizes)


def _calls_on_ones(signature: Signature | None, sizes: Sequence[Sizes]) -> Iterator[list[NDArray]]:
    """The arrays of a call, inputs and outputs, for each of *sizes* that determine all their dimensions."""
    specs = () if signature is None else (*signature.inputs, *signature.outputs)
    for known in sizes if specs else ():
        if all(isinstance(d, int) or known.determines(d) for spec in specs for d in spec.shape):
            yield [NDArray(ones(spec, spec.concrete_shape(known))) for spec in specs]


class Preparation:
    """*work*, done by a thread in which alone the backends of *guards* are used until it has ended."""

    def __init__(self, guards: Sequence[RegionGuard], work: Callable[[], None]):
        self._guards, self._work = guards, work
        self._error: Exception | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, name="byoc-prepare", daemon=True)
        self._thread.start()
        self._begun.wait()  # calls from now on are the host's

    def _run(self) -> None:
        for guard in self._guards:
            guard.begin_preparing(threading.get_ident())
        self._begun.set()
        try:
            self._work()
        except Exception as error:  # raised by ``wait``
            self._error = error
        finally:
            for guard in self._guards:
                guard.end_preparing()

    @property
    def is_done(self) -> bool:
        """Whether devices compute from now on."""
        return not self._thread.is_alive()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is done, at most *timeout* seconds; whether it is. Raises what preparing raised."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return self.is_done


def in_background(
    module: MetadataModule, executor: Callable[[], Executor], calls: Sequence[Sequence[object]], sizes: Sequence[Sizes]
) -> Preparation:
    """Runs on the inputs of *calls* that nobody waits for, and then those of parts which they did not reach.

    *executor* makes what runs *module* node by node. Raises UserError as :func:`device_guards`.
    """

    def work() -> None:
        running = executor()  # which calls all regions from this thread
        for inputs in calls:
            running.compute(inputs)
        prepare_parts(module, sizes)

    return Preparation(device_guards(module), work)
