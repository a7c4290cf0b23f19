"""Partitioning beyond Relay's passes: verdicts, the Plan, its limits, its report and its picture."""

from byoc.partition.plan.plan import Plan
from byoc.partition.plan.planned import PlannedRegion
from byoc.partition.policy.planner import make_plan
from byoc.partition.show.draw import to_dot, to_svg

__all__ = ["Plan", "PlannedRegion", "make_plan", "to_dot", "to_svg"]
