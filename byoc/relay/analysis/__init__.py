"""Analyses of expressions that change nothing, each loaded when it is first asked."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
