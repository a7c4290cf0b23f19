"""An estimate: seconds, and where the number comes from. Whatever a cost model gives passes :func:`checked`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Real

from byoc.errors import PartitionError


@dataclass(frozen=True)
class Estimate:
    """So many *seconds*, as *source* says: ``analytic``, ``measured``, ``table acme.json``, or more than one of them.

    They are infinite for what was found impossible; *source* then says why.
    """

    seconds: float
    source: str

    @property
    def possible(self) -> bool:
        """False for what cannot be done there, and is no candidate."""
        return math.isfinite(self.seconds)

    def __add__(self, other: Estimate) -> Estimate:
        return total([self, other])


def total(estimates: Iterable[Estimate], nothing: str = "nothing to do") -> Estimate:
    """The sum, with each source once; that of none is 0 seconds from *nothing*.

    >>> total([Estimate(1.0, "measured"), Estimate(2.0, "analytic"), Estimate(0.5, "measured")])
    Estimate(seconds=3.5, source='measured, analytic')
    """
    kept = list(estimates)
    sources = dict.fromkeys(source for e in kept for source in e.source.split(", "))
    return Estimate(math.fsum(e.seconds for e in kept), ", ".join(sources) or nothing)


def float_of(value: object) -> float | None:
    """*value* as a float, infinite where it is beyond; None where it is no real number."""
    if not isinstance(value, Real) or isinstance(value, bool):
        return None
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def checked(seconds: object, backend: str, what: str, source: str) -> Estimate:
    """*seconds* as an estimate. Raises PartitionError for what is no number, negative, infinite or not a number.

    *what* is the operator with its node, or the transfer or launch, as the message shall name it.
    """
    value = float_of(seconds)
    if value is not None:
        if math.isfinite(value) and value >= 0:
            return Estimate(value, source)
        found = "a negative one" if value < 0 else repr(value)
    else:
        found = "nothing" if seconds is None else repr(seconds)
    raise PartitionError(
        f"backend {backend!r}: the cost of {what} by {source} must be a finite number of seconds from 0, got {found}"
    )
