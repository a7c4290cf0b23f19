"""Patterns over dataflow graphs: matching, partitioning and rewriting. Source: ``relay.dataflow_pattern``."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
