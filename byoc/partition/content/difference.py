"""How two plans of one module differ: which nodes moved, what they cost, what crosses borders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from byoc.partition.boundaries import HOST
from byoc.partition.calls import Decision
from byoc.partition.content.explanation import seconds

if TYPE_CHECKING:
    from byoc.partition.content.cut import PlannedCut


@dataclass(frozen=True)
class Moved:
    """A node (or an operator without one) that is elsewhere in the other plan, each time with its operator there."""

    node: str
    before: str
    after: str


@dataclass(frozen=True)
class PlanDiff:
    """What differs; false where the plans place everything alike. Seconds are None where a plan has no costs."""

    moved: tuple[Moved, ...]
    regions: tuple[int, int]
    seconds: tuple[float | None, float | None]

    def __bool__(self) -> bool:
        return bool(self.moved)

    def __str__(self) -> str:
        before, after = self.regions
        lines = [f"{len(self.moved)} nodes moved; regions {before} -> {after}"]
        if self.seconds[0] is not None and self.seconds[1] is not None:
            lines[0] += f"; estimate {seconds(self.seconds[0])} -> {seconds(self.seconds[1])}"
        lines += [f"  {m.node}: {m.before} -> {m.after}" for m in self.moved]
        return "\n".join(lines)


def diff(before: PlannedCut, after: PlannedCut) -> PlanDiff:
    """What *after* does otherwise than *before*. Nodes are known by name; operators without one by their order."""
    first, second = _places(before.decisions), _places(after.decisions)
    moved = tuple(
        Moved(name, first.get(name, "nowhere"), second.get(name, "nowhere"))
        for name in dict.fromkeys((*first, *second))
        if first.get(name) != second.get(name)
    )
    return PlanDiff(moved, (len(before.regions), len(after.regions)), (_estimate(before), _estimate(after)))


def _estimate(plan: PlannedCut) -> float | None:
    return None if plan.total is None else plan.total.seconds


def _places(decisions: Sequence[Decision]) -> dict[str, str]:
    """Where each node is, and as part of which composite; a name that comes again has its number behind it."""
    found: dict[str, str] = {}
    for decision in decisions:
        place = decision.target or HOST
        if decision.operator.startswith(f"{place}."):
            place += f" as {decision.operator}"
        for name in decision.nodes or (decision.operator,):
            count, unique = 0, name
            while unique in found:
                count += 1
                unique = f"{name}#{count}"
            found[unique] = place
    return found
