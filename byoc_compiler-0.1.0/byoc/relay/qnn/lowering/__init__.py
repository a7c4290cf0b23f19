"""How each quantized operator becomes plain ones: importing this package gives the operators their rules.

A rule is kept under ``FTVMQnnCanonicalize``. What it makes gives the same integers as the numpy kernel of the quantized
operator. Source: the ``…QnnCanonicalize`` functions of ``relay/qnn/op``.
"""

from byoc.relay.qnn.lowering import convolution, elementwise, join, matrix_products, pool, quantize, requantize

__all__ = ["convolution", "elementwise", "join", "matrix_products", "pool", "quantize", "requantize"]
