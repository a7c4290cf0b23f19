"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.driver.costs.machine import MachineCosts as MachineCosts
from byoc.driver.costs.machine import threads_for as threads_for
from byoc.driver.costs.measured import MeasuredModel as MeasuredModel
from byoc.driver.costs.store import CostStore as CostStore
