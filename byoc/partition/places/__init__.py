"""Places and kernels: what may compute an operator, where, on which tensors; Paddle Lite's score; the fewest casts."""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
