"""Operators of object detection: the names of ``relay.vision``. None has a tensor expression: they run on numpy."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
