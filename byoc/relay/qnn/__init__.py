"""Quantized operators, how they are lowered, and their passes. Source: ``relay.qnn``."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
