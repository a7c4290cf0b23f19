"""Partitioning beyond Relay's passes: verdicts, the Plan, its limits, its report and its picture."""

from byoc.partition.draw import to_dot, to_svg
from byoc.partition.plan import Plan
from byoc.partition.planned import PlannedRegion
from byoc.partition.planner import make_plan

__all__ = ["Plan", "PlannedRegion", "make_plan", "to_dot", "to_svg"]
