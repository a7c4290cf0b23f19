"""A plan as JSON, which ``plan_reading.py`` reads. The layout has a version; a newer one is refused."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from byoc.partition.calls import Decision

if TYPE_CHECKING:
    from byoc.partition.content.cut import PlannedCut

VERSION = 3


def plan_to_json(plan: PlannedCut) -> dict[str, object]:
    """The fields of *plan* as numbers, strings, lists and mappings."""
    return {
        "version": VERSION,
        "policy": plan.policy,
        "targets": list(plan.targets),
        "mod_name": plan.mod_name,
        "decisions": [decision_to_json(d) for d in plan.decisions],
        "regions": [{**asdict(r), "operator_count": len(r.operators)} for r in plan.regions],
        "dissolved": {target: list(numbers) for target, numbers in plan.dissolved.items()},
        "limits": {target: asdict(limit) for target, limit in plan.limits.items()},
        "notes": list(plan.notes),
        "composites": [asdict(c) for c in plan.composites],
        "moves": [asdict(m) for m in plan.moves],
        "total": None if plan.total is None else asdict(plan.total),
        "measured": dict(plan.measured),
        **({"preferred": True} if plan.preferred else {}),
        "places": list(plan.places),
        **({"layouts": list(plan.layouts)} if plan.layouts else {}),
        **({"stand_ins": dict(plan.stand_ins)} if plan.stand_ins else {}),
    }


def decision_to_json(decision: Decision) -> dict[str, object]:
    """One decision, its verdicts and what else could have run it."""
    return {
        "operator": decision.operator,
        "nodes": list(decision.nodes),
        "target": decision.target,
        "verdicts": [
            {
                "target": target,
                "accepted": v.accepted,
                "reasons": [asdict(r) for r in v.reasons],
                **({"matches": [asdict(r) for r in v.matches]} if v.matches else {}),
            }
            for target, v in decision.verdicts
        ],
        **(
            {"precision": decision.precision, "precision_reason": decision.precision_reason}
            if decision.precision
            else {}
        ),
        **({"chosen": decision.chosen, "detail": decision.detail} if decision.chosen else {}),
        **({"inside": list(decision.inside)} if decision.inside else {}),
        **({"region": decision.region} if decision.region is not None else {}),
        **(
            {
                "seconds": decision.seconds,
                "source": decision.source,
                "alternatives": [asdict(a) for a in decision.alternatives],
            }
            if decision.seconds is not None
            else {}
        ),
    }
