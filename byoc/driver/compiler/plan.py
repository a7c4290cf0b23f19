"""``byoc.plan``: from a model to its plan, for which nothing is compiled unless costs are measured.

A plan that it makes, changed or not, saved or not, is what ``byoc.compile(plan=...)`` takes.
"""

from __future__ import annotations

import importlib

from byoc.driver.compiler.not_slower import not_slower
from byoc.driver.compiler.planning import accelerators, plan_module, silent, target_alone
from byoc.driver.integers import simplified
from byoc.driver.model import module_of
from byoc.driver.options import PlanRequest
from byoc.driver.pipeline import check_pass_names
from byoc.ir.module import IRModule
from byoc.options.entry import takes
from byoc.partition.plan.plan import Plan
from byoc.runtime.library import Library


@takes(PlanRequest, "byoc.plan")
def plan(asked: PlanRequest) -> Plan:
    """Where each operator of a model goes, and why.

    With policy ``model`` the targets default to the devices that the model names. With costs that are measured the plan
    is built and held against the host alone and each target alone, the fastest of which is given where it is faster.

    Returns:
        The plan, which ``byoc.compile(plan=...)`` takes, changed or not, saved or not.

    Raises:
        UserError: whatever cannot be planned, in one sentence.
    """
    return planned(asked)[1]


def planned(asked: PlanRequest) -> tuple[IRModule, Plan]:
    """The simplified module that a plan is for, and the plan."""
    check_pass_names(asked.pipeline)
    tell = asked.progress or silent
    tell("reading the model")
    mod = simplified(module_of(asked.model, asked.shapes), accelerators(asked.target_list()), asked.pipeline)
    tell("planning")
    found = plan_module(mod, asked.target_list(), asked, asked.model, tell)

    def build(plan: Plan) -> Library:
        compiler = importlib.import_module("byoc.driver.compiler.compile")  # which few plans need
        made: Library = compiler.build_planned(mod, plan, compiler.CompileOptions(pipeline=asked.pipeline), tell)
        return made

    return mod, not_slower(found, asked.costs, build, tell, target_alone(mod, asked, asked.model))


__all__ = ["plan", "planned"]
