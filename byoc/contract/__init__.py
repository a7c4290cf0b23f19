"""What a vendor's backend is and says: the class, its verdicts, limits, support table and registration."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
