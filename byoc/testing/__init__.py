"""Conformance of backends: cases made of operators and patterns, a reference in float64, and certificates."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
