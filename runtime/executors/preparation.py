"""Devices that are prepared by a thread of their own, while the host computes their regions.

Kernels are built, constants go to the device and memory is taken there by a run that nobody waits for. Until it has
ended, calls from all other threads take the host's versions of these regions (``RegionGuard.begin_preparing``); then
they take the device's. Source: MNN's ``Session_Backend_Auto``, which runs on the CPU while kernels are tuned.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.errors import UserError
from byoc.runtime.region.guard import RegionGuard

if TYPE_CHECKING:
    from byoc.runtime.modules.metadata import MetadataModule


def device_guards(module: MetadataModule) -> list[RegionGuard]:
    """The guards of the regions below *module* that run on devices of their own.

    Raises UserError for one that the host has no version of, and where there is none.
    """
    found = []
    for symbol in module.regions:
        owner = module.owner(symbol)
        if owner is not None and owner.can_start:
            found.append(module.guard(symbol))
    if not found and any(getattr(below, "has_device", False) for below in module.walk()):
        raise UserError(
            "regions in branches, loops and parts of control flow cannot be prepared in the background: use "
            "library.prepare(), which waits for them"
        )
    if not found:
        raise UserError("no region of this model runs on a device: there is nothing to prepare in the background")
    alone = next((guard for guard in found if not guard.has_stand_in), None)
    if alone is not None:
        raise UserError(
            f"{alone.region.describe(alone.symbol)} cannot be prepared in the background, since the host has no "
            "version of it: compile with fallback=True"
        )
    return found


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
