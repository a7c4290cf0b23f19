"""How each quantized operator becomes plain ones: its modules give the operators their rules.

A rule is kept under ``FTVMQnnCanonicalize``. What it makes gives the same integers as the numpy kernel of the quantized
operator. Source: the ``…QnnCanonicalize`` functions of ``relay/qnn/op``.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
