"""A plan as JSON and back. The layout has a version; a newer one is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from byoc.codegen.backend import Limits, Reason, Verdict
from byoc.errors import PartitionError
from byoc.partition.decision import Alternative, Decision
from byoc.partition.matches import Chosen
from byoc.partition.measure import Boundary
from byoc.partition.outlay import Move, Total
from byoc.partition.planned import PlannedRegion

if TYPE_CHECKING:
    from byoc.partition.plan import Plan

VERSION = 3


def plan_to_json(plan: Plan) -> dict[str, object]:
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
    }


def decision_to_json(decision: Decision) -> dict[str, object]:
    """One decision, its verdicts and what else could have run it."""
    return {
        "operator": decision.operator,
        "nodes": list(decision.nodes),
        "target": decision.target,
        "verdicts": [
            {
                "target": target, "accepted": v.accepted, "reasons": [asdict(r) for r in v.reasons],
                **({"matches": [asdict(r) for r in v.matches]} if v.matches else {}),
            }
            for target, v in decision.verdicts
        ],
        **({"precision": decision.precision, "precision_reason": decision.precision_reason}
           if decision.precision else {}),
        **({"chosen": decision.chosen, "detail": decision.detail} if decision.chosen else {}),
        **({"region": decision.region} if decision.region is not None else {}),
        **({"seconds": decision.seconds, "source": decision.source,
            "alternatives": [asdict(a) for a in decision.alternatives]} if decision.seconds is not None else {}),
    }


def plan_from_json(data: Mapping[str, object]) -> dict[str, object]:
    """The fields of a plan from :func:`plan_to_json`. Raises PartitionError naming what is missing or wrong."""
    if not isinstance(data, Mapping) or "version" not in data:
        raise PartitionError("a plan is a JSON object with a version; this is something else")
    if data["version"] != VERSION:
        raise PartitionError(f"the plan has layout {data['version']}, this byoc reads {VERSION}: make the plan again")
    try:
        return _whole({
            "policy": data["policy"],
            "targets": tuple(data["targets"]),  # type: ignore[arg-type]
            "mod_name": data["mod_name"],
            "decisions": tuple(_decision(d) for d in data["decisions"]),  # type: ignore[attr-defined]
            "regions": tuple(_region(r) for r in data["regions"]),  # type: ignore[attr-defined]
            "dissolved": {t: tuple(n) for t, n in data["dissolved"].items()},  # type: ignore[attr-defined]
            "limits": {t: Limits(**v) for t, v in data["limits"].items()},  # type: ignore[attr-defined]
            "preferred": bool(data.get("preferred", False)),
            "measured": dict(data["measured"]),  # type: ignore[call-overload]
            "places": tuple(data["places"]),  # type: ignore[arg-type]
            "notes": tuple(data["notes"]),  # type: ignore[arg-type]
            "composites": tuple(Chosen(**c) for c in data["composites"]),  # type: ignore[attr-defined]
            "moves": tuple(Move(**m) for m in data["moves"]),  # type: ignore[attr-defined]
            "total": None if data["total"] is None else Total(**data["total"]),  # type: ignore[arg-type]
        })
    except (KeyError, TypeError, AttributeError) as error:
        raise PartitionError(f"the plan's JSON is damaged: {type(error).__name__}: {error}") from error


def _whole(fields: dict[str, object]) -> dict[str, object]:
    """*fields*, whose decisions are about the plan's own targets. Raises PartitionError for others."""
    targets: tuple[str, ...] = fields["targets"]  # type: ignore[assignment]
    for number, decision in enumerate(fields["decisions"]):  # type: ignore[arg-type, var-annotated]
        if decision.target is not None and decision.target not in targets:
            raise PartitionError(
                f"the plan's JSON is damaged: decision {number} ({decision.operator}) is on {decision.target!r}, "
                f"which is none of its targets: {', '.join(map(str, targets)) or 'none'}"
            )
        region = decision.region
        if region is not None and not (isinstance(region, int) and decision.target):
            raise PartitionError(
                f"the plan's JSON is damaged: decision {number} ({decision.operator}) is in region {region!r}: "
                "give the number of a region, and none on the host"
            )
    if fields["total"] is not None and any(d.target and d.region is None for d in fields["decisions"]):  # type: ignore
        raise PartitionError("the plan's JSON is damaged: a decision of a plan by cost has a target and no region")
    return fields


def _decision(data: Mapping[str, object]) -> Decision:
    operator, nodes = str(data["operator"]), tuple(data["nodes"])  # type: ignore[arg-type]
    verdicts = tuple(
        (str(v["target"]), Verdict(
            bool(v["accepted"]), operator, nodes, tuple(Reason(**r) for r in v["reasons"]),
            tuple(Reason(**r) for r in v.get("matches", ())),
        ))
        for v in data["verdicts"]  # type: ignore[attr-defined]
    )
    precision = (str(data.get(key, "")) for key in ("precision", "precision_reason"))
    return Decision(
        operator, nodes, data["target"], verdicts, *precision,  # type: ignore[arg-type]
        region=data.get("region"), seconds=data.get("seconds"), source=str(data.get("source", "")),  # type: ignore[arg-type]
        alternatives=tuple(Alternative(**a) for a in data.get("alternatives", ())),  # type: ignore[attr-defined]
        chosen=str(data.get("chosen", "")), detail=str(data.get("detail", "")),
    )


def _region(data: Mapping[str, object]) -> PlannedRegion:
    fields = {key: value for key, value in data.items() if key != "operator_count"}
    for key in ("operators", "composites", "nodes", "calls"):
        fields[key] = tuple(fields[key])  # type: ignore[arg-type]
    for key in ("inputs", "outputs"):
        fields[key] = tuple(Boundary(**{**b, "shape": tuple(b["shape"])}) for b in fields[key])  # type: ignore[attr-defined]
    return PlannedRegion(**fields)  # type: ignore[arg-type]
