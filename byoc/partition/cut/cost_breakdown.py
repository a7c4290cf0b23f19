"""What a plan costs by its cost model: the sum, its parts, and each tensor that goes from one place to another."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Transfer:
    """A tensor that is brought from one target to another: the operator that makes it, its bytes, the seconds."""

    tensor: str
    source: str
    destination: str
    bytes: int
    seconds: float


@dataclass(frozen=True)
class CostBreakdown:
    """What a plan costs by its cost model, in seconds, and how far from the best it may be.

    ``gap`` is a share of the cost: 0 is proven best, None unknown. ``method`` found it.
    """

    objective: str
    seconds: float
    work: float
    transfers: float
    launches: float
    bound: float | None
    gap: float | None
    method: str
