"""What a module reports of its device, where it has one: memory, counts, events; by default nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from byoc.runtime.core.errors import UserError

if TYPE_CHECKING:
    from byoc.runtime.core.device_event import DeviceEvent
    from byoc.runtime.devices.peak import Peak


class OnDevice:
    """The part of a module's interface that is about a device of its own.

    ``parts_modules`` are the modules at the roots of libraries inside of it: the parts of control flow.
    """

    parts_modules: Sequence[OnDevice] = ()

    def memory(self, symbol: str) -> Mapping[str, int]:
        """The bytes that *symbol* takes beside its inputs, outputs and constants, by what for: for the report."""
        return {}

    def region_notes(self, symbol: str) -> Sequence[str]:
        """Sentences on how *symbol* is done (what tensors lie in, what became of a wish, by what it was chosen)."""
        return ()

    @property
    def counts(self) -> Mapping[str, int]:
        """What it asked of its device so far, by name (allocations, kernels, bytes copied); empty where it has none."""
        return {}

    def keep_sizes(self, count: int) -> None:
        """Keep what is made for each set of input sizes for so many of them, where it keeps the most recent."""

    def use_threads(self, count: int | None) -> None:
        """Let libraries inside of it run on so many threads of the host; None for as many as pay."""

    def exchange(self, other: OnDevice) -> Callable[[], None]:
        """What has this module compute as *other* does from the next call of each symbol on, constants included.

        All that takes time (kernels, constants on the device, memory) is done before this returns. Raises UserError for
        a module that cannot, and for another one than it can take the place of; DeviceError.
        """
        raise UserError(f"a module of type {type(self).__name__} has no kernels that can be exchanged")

    def peak(self) -> Peak | None:
        """The most that its device can do, for profiles: as it is known, else measured now; None where nobody asks it.

        Raises DeviceError where the device cannot be measured.
        """
        return None

    def profile(self, on: bool) -> Sequence[DeviceEvent]:
        """Begin to keep events of what this module does (*on*), or end: what was kept since the last call, in order.

        A module that keeps none gives none: then a profile has the times of its functions' calls.
        """
        return ()
