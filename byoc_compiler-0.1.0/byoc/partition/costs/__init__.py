"""Costs: seconds for units, regions, transfers and launches at a place, each number with where it comes from.

``cost_model(spec, backends)`` turns what a user writes into a :class:`CostModel`.
"""

from byoc.partition.costs.analytic import AnalyticModel
from byoc.partition.costs.estimate import Estimate, total
from byoc.partition.costs.mix import MixedModel
from byoc.partition.costs.model import CostModel
from byoc.partition.costs.place import UnitPlace
from byoc.partition.costs.profile import Memory, Profile, register_profile
from byoc.partition.costs.spec import CostSpec, cost_model
from byoc.partition.costs.table import FunctionModel, Table, TableModel

__all__ = [
    "AnalyticModel",
    "CostModel",
    "CostSpec",
    "Estimate",
    "FunctionModel",
    "Memory",
    "MixedModel",
    "Profile",
    "Table",
    "TableModel",
    "UnitPlace",
    "cost_model",
    "register_profile",
    "total",
]
