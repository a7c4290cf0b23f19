"""From floats between ``qnn.dequantize`` and ``qnn.quantize`` to integers.

What lies between is found by ``analysis.fake_quantized_regions``. ``rewriting`` turns it over, rule by rule, ``qat``
what only begins with dequantized tensors. The rules stand on the operators; ``ends`` and the ``…_rules`` modules give
Relay's. Source: ``relay/transforms/fake_quantization_to_integer.cc``.
"""

from byoc.relay.qnn.fake import (
    elementwise_rules,
    ends,
    identity_rules,
    product_rules,
    window_rules,
)

__all__ = ["elementwise_rules", "ends", "identity_rules", "product_rules", "window_rules"]
