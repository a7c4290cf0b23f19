"""Costs that this machine tells: a calibration of its devices, and units built and timed."""

from byoc.driver.costs.machine import MachineCosts, threads_for
from byoc.driver.costs.measured import MeasuredModel
from byoc.driver.costs.store import CostStore

__all__ = ["CostStore", "MachineCosts", "MeasuredModel", "threads_for"]
