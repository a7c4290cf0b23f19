"""Partitioning beyond Relay's passes: verdicts, the Plan, its limits, its report and its picture.

What it has is loaded when it is first used, so that its options (``options.py``) are read without the planner.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
