"""Solvers of the placement problem (``byoc.partition.problem``): exact cuts, integer programs, heuristics."""

from byoc.partition.solve.regions import form_regions
from byoc.partition.solve.solver import solve

__all__ = ["form_regions", "solve"]
