"""Costs that this machine tells: a calibration of its devices, and units built and timed."""
