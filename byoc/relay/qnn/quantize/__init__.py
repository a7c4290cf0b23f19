"""Quantization after training: from a float32 function and ranges to one over numbers of 8 bits.

``ranges`` chooses what stands for a tensor from its ``histogram``; ``static`` rewrites by such ranges for the host,
``regions`` for backends that declare what integers they take, ``dynamic`` by ranges found when the model runs;
``products`` says which operators may be quantized, and why others are left.
"""

from byoc.base.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
