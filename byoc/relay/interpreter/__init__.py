"""The reference interpreter: what "the right answer" means for any program of the graph language."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
