"""Solvers of the placement problem (``byoc.partition.problem``): exact cuts, integer programs, heuristics."""
