"""Plans from JSON, as ``plan_json.py`` writes them.

What is read is declared by the types of :class:`WrittenPlan`, and checked by them (``typed_json.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason, Verdict
from byoc.errors import PartitionError
from byoc.partition.calls import Decision
from byoc.partition.content.plan_json import VERSION
from byoc.partition.content.region_measures import PlannedRegion
from byoc.partition.content.typed_json import typed
from byoc.partition.cut.cost_breakdown import CostBreakdown, Transfer
from byoc.partition.cut.matches import ChosenMatch

Plan = TypeVar("Plan")  # its class, which stands above


@dataclass(frozen=True)
class WrittenVerdict:
    """What one target said, as JSON has it; operator and nodes are those of the decision."""

    target: str
    accepted: bool
    reasons: tuple[Reason, ...]
    matches: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class WrittenDecision(Decision):
    """A decision as JSON has it."""

    verdicts: tuple[WrittenVerdict, ...] = field()  # type: ignore[assignment]

    def decision(self) -> Decision:
        """What it stands for."""
        verdicts = tuple(
            (v.target, Verdict(v.accepted, self.operator, self.nodes, v.reasons, v.matches)) for v in self.verdicts
        )
        return Decision(**{**vars(self), "verdicts": verdicts})


@dataclass(frozen=True)
class WrittenRegion(PlannedRegion):
    """A region as JSON has it, with the number of its operators for those who read it."""

    operator_count: int = 0

    def region(self) -> PlannedRegion:
        """What it stands for."""
        return PlannedRegion(**{name: value for name, value in vars(self).items() if name != "operator_count"})


@dataclass(frozen=True)
class WrittenPlan:
    """A plan as JSON has it."""

    version: int
    policy: str
    targets: tuple[str, ...]
    mod_name: str
    decisions: tuple[WrittenDecision, ...]
    regions: tuple[WrittenRegion, ...]
    dissolved: Mapping[str, tuple[int, ...]]
    limits: Mapping[str, Limits]
    notes: tuple[str, ...]
    composites: tuple[ChosenMatch, ...]
    moves: tuple[Transfer, ...]
    total: CostBreakdown | None
    measured: Mapping[str, float]
    places: tuple[str, ...]
    preferred: bool = False
    layouts: tuple[str, ...] = ()
    stand_ins: Mapping[str, str] = field(default_factory=dict)


def plan_from_json(data: object, make: Callable[..., Plan]) -> Plan:
    """What *make* makes of the fields that :func:`plan_to_json` gave. Raises PartitionError naming the wrong place."""
    if not isinstance(data, Mapping) or "version" not in data:
        raise PartitionError("a plan is a JSON object with a version; this is something else")
    if data["version"] != VERSION:
        raise PartitionError(f"the plan has layout {data['version']}, this byoc reads {VERSION}: make the plan again")
    try:
        written = typed(data, WrittenPlan)
        _check(written)
    except PartitionError as error:
        raise PartitionError(f"the plan's JSON is damaged: {error}") from error
    kept = {name: value for name, value in vars(written).items() if name != "version"}
    kept["decisions"] = tuple(d.decision() for d in written.decisions)
    kept["regions"] = tuple(r.region() for r in written.regions)
    return make(**kept)


def _check(plan: WrittenPlan) -> None:
    """Raises PartitionError where the decisions are not about the plan's own targets, or where a region is missing."""
    for number, decision in enumerate(plan.decisions):
        what = f"decision {number} ({decision.operator})"
        if decision.target is not None and decision.target not in plan.targets:
            targets = ", ".join(plan.targets) or "none"
            raise PartitionError(f"{what} is on {decision.target!r}, which is none of its targets: {targets}")
        if decision.region is not None and decision.target is None:
            raise PartitionError(f"{what} is on the host and in region {decision.region}: the host has no regions")
        if plan.total is not None and decision.target is not None and decision.region is None:
            raise PartitionError(f"{what} is on {decision.target!r} in no region, in a plan by cost: give its number")
