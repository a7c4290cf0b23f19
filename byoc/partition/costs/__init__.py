"""Costs: seconds for units, regions, transfers and launches at a place, each number with where it comes from.

``cost_model(spec, backends)`` turns what a user writes into a :class:`CostModel`.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
