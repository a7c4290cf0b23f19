"""The hard limits of a backend's regions, checked when they are written."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Integral, Real

from byoc.errors import PartitionError


@dataclass(frozen=True)
class Limits:
    """Hard limits of a backend; None is none. ``min_operators`` and ``min_operations`` are the least size of a region
    worth a launch: operators, and what they compute (additions and multiplications; policy ``cost`` does not ask).

    ``max_bytes`` are those of a region's weights and the peak of its activations; ``min_gain`` is what a region must
    save to be worth it, in microseconds, by what the costs say.
    """

    max_operators: int | None = None
    max_bytes: int | None = None
    max_regions: int | None = None
    min_operators: int = 1
    min_gain: float = 0.0
    min_operations: int = 0

    def __post_init__(self) -> None:
        for limit in fields(self):
            object.__setattr__(self, limit.name, _checked(limit.name, getattr(self, limit.name), limit.default))

    @staticmethod
    def of(given: Limits | Mapping[str, object], target: str) -> Limits:
        """*given* for *target*, also by name: ``{"max_operators": 4}``. Raises PartitionError for what is neither."""
        if isinstance(given, Limits):
            return given
        known = [limit.name for limit in fields(Limits)]
        make: Callable[..., Limits] = Limits  # which looks at what the values are
        if not isinstance(given, Mapping) or not set(given) <= set(known):
            raise PartitionError(f"{target}: limits are Limits(...), or by name {', '.join(known)}, got {given!r}")
        try:
            return make(**given)
        except PartitionError as error:
            raise PartitionError(f"{target}: {error}") from error


def _checked(name: str, value: object, default: object) -> float | None:
    """The value of a limit. Raises PartitionError for what is below 0, no number, or no whole number of a count."""
    if value is None and default is None:
        return None
    if isinstance(value, Real) and not isinstance(value, bool) and abs(value) == value:
        if isinstance(default, float):
            return float(value) if value <= sys.float_info.max else math.inf
        if isinstance(value, Integral):
            return int(value)
    number = "number" if isinstance(default, float) else "whole number"
    raise PartitionError(f"limit {name} is {value!r}: give a {number} from 0{', or None' if default is None else ''}")
