"""Relay's text format, both ways: :func:`astext` prints, :func:`parse` reads."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
