"""Partitioning beyond Relay's passes: verdicts, the Plan, its limits, its report and its picture.

What it has is loaded when it is first used, so that its options (``options.py``) are read without the planner.
"""

from byoc.lazy_names import lazy_names

# name -> the module that defines it; the same imports stand in __init__.pyi
_HOMES = {
    "Plan": ".plan.plan",
    "PlannedRegion": ".plan.planned",
    "make_plan": ".policy.planner",
    "to_dot": ".show.draw",
    "to_svg": ".show.draw",
}

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

__all__ = sorted(_HOMES)
