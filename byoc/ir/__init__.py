"""What every level shares: types, module, operator registry, attributes, spans, passes. Source: ``tvm.ir``.

Structural equality and hash speak of expressions and stand in ``byoc.relay.structure.structural``.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
