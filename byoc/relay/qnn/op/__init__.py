"""Quantized operators, whose builders are the names here. Source: ``relay.qnn.op``."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
