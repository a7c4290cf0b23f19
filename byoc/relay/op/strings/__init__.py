"""Operators on strings, which run on numpy kernels of the host wherever the rest of a model runs."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
