"""A function as the region that a backend would be given of it: by its verdicts, with its composites."""

from __future__ import annotations

from byoc.contract.limits import Limits
from byoc.ir.module import IRModule
from byoc.partition.options import PlannerRequest
from byoc.partition.plan.planner import make_requested_plan
from byoc.relay.analysis.module_types import infer_module
from byoc.relay.expr import Function


def as_region(function: Function, target: str) -> IRModule | None:
    """The module that calls all of *function* as one region of the backend *target*; None where it does not take all.

    Limits are not asked.
    """
    mod = infer_module(IRModule({"main": Function(function.params, function.body)}))
    plan = make_requested_plan(PlannerRequest(mod, [target], limits={target: Limits()}))
    if len(plan.regions) != 1 or plan.host:
        return None
    return plan.apply(mod)
