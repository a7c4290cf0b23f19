"""Costs measured on this machine: a calibration of its devices, and units built and timed."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
