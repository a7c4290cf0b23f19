"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.partition.solve.regions import form_regions as form_regions
from byoc.partition.solve.solver import solve as solve
