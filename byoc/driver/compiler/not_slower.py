"""A plan by measured costs, held against the host alone: kernels are added up, and what is left out may cost more."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from byoc.contract.verdict import Reason
from byoc.driver.costs.timing import Turns, interleaved
from byoc.driver.measure_plan import random_inputs
from byoc.errors import UserError
from byoc.partition.content.explanation import seconds
from byoc.partition.plan.plan import Plan
from byoc.runtime.library import Library

MEASURED = "measured"
TURNS = Turns(rounds=9, seconds=0.02)
SLOWER = 1.05  # times the host's seconds, which two equal libraries may differ by


def not_slower(plan: Plan, costs: object, build: Callable[[Plan], Library], tell: Callable[[str], object]) -> Plan:
    """*plan*, with the seconds of both where its costs are measured; that of the host alone where that is faster.

    *build* compiles a plan. Raises what it raises.
    """
    words = costs.values() if isinstance(costs, Mapping) else [costs]
    if (
        plan.policy != "cost"
        or not plan.regions
        or not any(word == MEASURED for word in words if isinstance(word, str))
    ):
        return plan
    host = plan.without({t: Reason("slower", "the host alone is faster, as measured") for t in plan.targets})
    tell("measuring the plan beside the host alone")
    try:
        found = _seconds({"plan": build(plan), "host": build(host)})
    except UserError as error:
        return plan.with_note(f"the plan was not measured beside the host alone: {error}")
    if found["plan"] <= SLOWER * found["host"]:
        return plan.with_note(f"measured: {seconds(found['plan'])}, the host alone {seconds(found['host'])}")
    return host.with_note(
        f"this is the host alone, which takes {seconds(found['host'])}: the cheapest cut by measured kernels takes "
        f"{seconds(found['plan'])}, for an estimate of {seconds(plan.total.seconds if plan.total else 0.0)}"
    )


def _seconds(libraries: Mapping[str, Library]) -> dict[str, float]:
    """The least seconds of a call of each, in turns. Raises UserError for inputs of free sizes."""
    values = random_inputs(next(iter(libraries.values())))
    runs = {}
    for name, library in libraries.items():
        executor = library.executor()
        for key, value in values.items():
            executor.set_input(key, value)
        executor.run()
        runs[name] = executor.run
    return interleaved(runs, TURNS)
