"""For the day when numbers are wrong: which operator it is, and where two compiled models part."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
