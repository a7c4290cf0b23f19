"""Quantized operators, how they are lowered, and their passes. Source: ``relay.qnn``."""

from byoc.lazy_names import lazy_names, load_all

__getattr__, __dir__, __all__ = lazy_names(__name__)
load_all(__name__, but=("transform",))  # which registers the operators and their rules
