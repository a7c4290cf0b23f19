"""Decisions held to the limits of their backends: regions are split where the cut costs least, what fits in none goes
home.

For the policies that decide call by call; policy ``cost`` has limits among what it chooses. Few regions come first,
then few bytes between them; among too many regions those with the most operations stay. Each round sends some calls
home, so that it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.contract.limits import Limits
from byoc.contract.verdict import Reason
from byoc.ir.module import IRModule
from byoc.partition.calls import Decision
from byoc.partition.costs.model import CostModel


def within_limits(
    mod: IRModule, decisions: Sequence[Decision], limits: Mapping[str, Limits], costs: CostModel | None = None
) -> list[Decision]:
    """*decisions* about the calls of *mod*, each with its region, within *limits*; those that no region can hold are on
    the host, with the reason. Without limits they come back as they are, and regions are merged as Relay does. Least
    gains are asked of *costs*.
    """
    if not any(limit != Limits() for limit in limits.values()):
        return list(decisions)
    from byoc.partition.policy.limited_regions import regions_within  # which few backends ask for

    return regions_within(mod, decisions, limits, costs)


def reported_drops(before: Sequence[Decision], after: Sequence[Decision]) -> list[str]:
    """A sentence for each target and limit that sent operators home, with their ONNX nodes."""
    dropped: dict[tuple[str, Reason], list[str]] = {}
    for old, new in zip(before, after, strict=True):
        if old.target is not None and new.target is None:
            reason = dict(new.verdicts)[old.target].reasons[0]
            dropped.setdefault((old.target, reason), []).append(", ".join(new.nodes) or new.operator)
    return [f"dropped from {target}: {', '.join(names)}: {reason}" for (target, reason), names in dropped.items()]
