"""A plan by measured costs, held against the simple cuts: the host alone, and each target alone.

Kernels are added up to find the plan, and what is left out of such a sum may cost more than was gained: a library that
is given a whole model joins what lies on both sides of a cut. So the whole plan is built and timed beside the cuts that
a user would try without us, and the best of them is given unless the plan is faster than all: a cut has to win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.contract.verdict import Reason
from byoc.errors import UserError
from byoc.partition.plan.plan import Plan
from byoc.runtime.library import Library

MEASURED = "measured"
PLAN, HOST = "the plan", "the host alone"
ROUNDS, TURN_SECONDS = 9, 0.02
Build = Callable[[Plan], Library]


def not_slower(
    plan: Plan, costs: object, build: Build, tell: Callable[[str], object], alone: Callable[[str], Plan]
) -> Plan:
    """*plan*, with the seconds of all where its costs are measured; the host alone or a target alone where that is
    faster.

    Args:
        plan: what the policy chose.
        costs: as the user gave them; where none of them is measured, nothing is built.
        build: compiles a plan. What it raises for *plan* or the host is told in a note, a target for which it raises
            is left out.
        tell: hears of what takes seconds.
        alone: the plan that gives a target all that it takes, and the host the rest.
    """
    words = costs.values() if isinstance(costs, Mapping) else [costs]
    targets = plan.targets
    if plan.policy != "cost" or not targets or not any(word == MEASURED for word in words if isinstance(word, str)):
        return plan
    cuts = _cuts(plan, alone)
    if len(cuts) == 1:
        return plan
    from byoc.partition.content.explanation import seconds

    tell(f"measuring the plan beside {' and '.join(name for name in cuts if name != PLAN)}")
    try:
        found = _seconds(_built(cuts, build))
    except UserError as error:
        return plan.with_note(f"the plan was not measured beside the host alone: {error}")
    best = min(found, key=lambda name: found[name])
    if best == PLAN:
        others = "".join(f", {name} {seconds(found[name])}" for name in found if name != PLAN)
        return plan.with_note(f"measured: {seconds(found[PLAN])}{others}")
    return cuts[best].with_note(
        f"this is {best}, which takes {seconds(found[best])}: the cheapest cut by measured kernels takes "
        f"{seconds(found[PLAN])}, for an estimate of {seconds(plan.total.seconds if plan.total else 0.0)}"
    )


def _cuts(plan: Plan, alone: Callable[[str], Plan]) -> dict[str, Plan]:
    """*plan*, the host alone, and each of its targets alone, by names; those that are one cut once."""
    host = plan.without({t: Reason("slower", "the host alone is faster, as measured") for t in plan.targets})
    cuts = {PLAN: plan, HOST: host, **{f"{target} alone": alone(target) for target in plan.targets}}
    kept: dict[str, Plan] = {}
    for name, cut in cuts.items():
        if all(_regions(cut) != _regions(other) for other in kept.values()):
            kept[name] = cut
    return kept


def _regions(plan: Plan) -> list[object]:
    return [(r.target, r.operators, r.nodes, r.composites) for r in plan.regions]


def _built(cuts: Mapping[str, Plan], build: Build) -> dict[str, Library]:
    """The libraries of *cuts*, without those of targets that cannot be built alone."""
    found: dict[str, Library] = {}
    for name, cut in cuts.items():
        try:
            found[name] = build(cut)
        except UserError:
            if name in (PLAN, HOST):
                raise
    return found


def _seconds(libraries: Mapping[str, Library]) -> dict[str, float]:
    """The least seconds of a call of each, in turns. Raises UserError for inputs of free sizes."""
    from byoc.driver.costs.timing import Turns, interleaved  # where a plan is by measured costs alone
    from byoc.driver.measure_plan import random_inputs

    values = random_inputs(next(iter(libraries.values())))
    runs = {}
    for name, library in libraries.items():
        executor = library.executor()
        for key, value in values.items():
            executor.set_input(key, value)
        executor.run()
        runs[name] = executor.run
    return interleaved(runs, Turns(rounds=ROUNDS, seconds=TURN_SECONDS))
