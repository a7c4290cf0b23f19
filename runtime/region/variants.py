"""What a region chose when it first ran with certain sizes: a kernel for each of its steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class ChosenVariants:
    """The kernels of *symbol* for calls with *sizes* (its free dimensions), one a step, by their schedules' names.

    *times* is how often they were chosen: once, unless so many other sizes came between that they had been forgotten.
    """

    symbol: str
    sizes: tuple[tuple[str, int], ...]
    variants: tuple[str, ...]
    times: int = 1

    def to_json(self) -> Mapping[str, object]:
        return {"symbol": self.symbol, "sizes": dict(self.sizes), "variants": list(self.variants), "times": self.times}
