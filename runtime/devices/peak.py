"""The most that a device can do: what the rates of a profile are held against."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

ANY = "*"  # the dtype of a rate for all that are not named


class PeakSource(enum.Enum):
    """Where the peak of a device is taken from."""

    KEPT = enum.auto()
    """What was measured before; nothing is measured."""
    KEPT_OR_MEASURED = enum.auto()
    """What was measured before, else a measurement now."""
    MEASURED = enum.auto()
    """A measurement now, which replaces what was kept."""


@dataclass(frozen=True)
class Peak:
    """Rates that a device does not exceed, as somebody measured or said.

    Attributes:
        operations: operations a second by dtype (``*`` for others), where a multiply-add is two.
        bandwidth: bytes a second, of more data than nearer memories hold.
        source: who found it.
        launch: seconds from the start of a kernel that does nothing to that of the next; 0 where nobody looked.
        near: of nearer memories, as caches are, the nearest first: bytes a second for so many bytes and fewer.
    """

    operations: Mapping[str, float]
    bandwidth: float
    source: str = ""
    launch: float = 0.0
    near: tuple[tuple[int, float], ...] = ()

    def bounds(self, operations: int | None, nbytes: int | None, dtype: str) -> tuple[float, float] | None:
        """The least seconds for so many operations, and for so many bytes; None where these are not known.

        >>> Peak({"*": 2e9}, 1e9).bounds(4_000_000_000, 500_000_000, "float32")
        (2.0, 0.5)
        """
        if operations is None or nbytes is None:
            return None
        rate = self.operations.get(dtype) or self.operations[ANY]
        return operations / rate, nbytes / self.bandwidth_for(nbytes)

    def bandwidth_for(self, nbytes: int) -> float:
        """The bytes a second of data of *nbytes*.

        >>> [Peak({"*": 1.0}, 1e9, near=((1 << 20, 5e9),)).bandwidth_for(n) for n in (1000, 2 << 20)]
        [5000000000.0, 1000000000.0]
        """
        return next((rate for most, rate in self.near if nbytes <= most), self.bandwidth)
