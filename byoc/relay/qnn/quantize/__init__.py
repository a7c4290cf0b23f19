"""Quantization after training: from a float32 function and ranges to one over numbers of 8 bits.

``ranges`` chooses what stands for a tensor from its ``histogram``; ``static`` rewrites by such ranges for the host,
``regions`` for backends that declare what integers they take, ``dynamic`` by ranges found when the model runs;
``products`` says which operators may be quantized, and why others are left.
"""

from byoc.relay.qnn.quantize.dynamic import quantize_dynamic
from byoc.relay.qnn.quantize.histogram import Histogram
from byoc.relay.qnn.quantize.products import Left
from byoc.relay.qnn.quantize.ranges import METHODS, Affine, choose_range, quantize_weights
from byoc.relay.qnn.quantize.regions import RegionQuantizer, quantization_of
from byoc.relay.qnn.quantize.static import StaticQuantizer

__all__ = [
    "METHODS",
    "Affine",
    "Histogram",
    "Left",
    "RegionQuantizer",
    "StaticQuantizer",
    "choose_range",
    "quantization_of",
    "quantize_dynamic",
    "quantize_weights",
]
