"""Ways into the graph language. Source: ``relay.frontend``."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
