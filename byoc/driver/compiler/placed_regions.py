"""How regions are made where a plan gives their calls places: what was granted is what is compiled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from byoc.contract.registration import get_backend
from byoc.driver.precision import FP16
from byoc.driver.region_build import BuildRequest
from byoc.partition.place import Place
from byoc.partition.plan.plan import Plan

if TYPE_CHECKING:
    from byoc.relay.transform.half_operands import Beyond


def in_halves(request: BuildRequest, beyond: Beyond | None, targets: Collection[str] | None = None) -> BuildRequest:
    """*request* for regions of *targets*, or of all, in half precision but for what is *beyond* it."""
    from byoc.driver.half_regions import HalfRegions  # which few ask for

    return replace(request, halves=HalfRegions.of(beyond, targets))


def at_places(plan: Plan, request: BuildRequest, beyond: Beyond | None) -> BuildRequest:
    """*request* with what the places in *plan* ask of each target; *beyond* is what stays in float32 at ``fp16``.

    Raises UserError where options contradict them.
    """
    places: dict[str, dict[str, None]] = {}
    for decision in plan.decisions:
        if decision.target is not None and decision.chosen:
            places.setdefault(decision.target, {})[decision.chosen] = None
    options = dict(request.backend_options)
    halves = set()
    for name, own in places.items():
        backend = get_backend(name)
        made = backend.options_at(tuple(own), options.get(name, {}))
        if made or name in options:
            options[name] = made
        if FP16 in backend.precisions_inside and any(str(Place.parse(p).precision) == FP16 for p in own):
            halves.add(name)
    request = replace(request, backend_options=options)
    if not halves or request.halves is not None:
        return request
    return in_halves(request, beyond, halves)
