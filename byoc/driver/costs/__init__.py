"""Costs that this machine tells: a calibration of its devices, and units built and timed."""

from byoc.driver.costs.machine import Machine, threads_for
from byoc.driver.costs.measured import MeasuredModel
from byoc.driver.costs.store import Store

__all__ = ["Machine", "MeasuredModel", "Store", "threads_for"]
