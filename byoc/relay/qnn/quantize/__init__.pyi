"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.qnn.quantize.dynamic import quantize_dynamic as quantize_dynamic
from byoc.relay.qnn.quantize.histogram import Histogram as Histogram
from byoc.relay.qnn.quantize.products import Left as Left
from byoc.relay.qnn.quantize.ranges import METHODS as METHODS
from byoc.relay.qnn.quantize.ranges import Affine as Affine
from byoc.relay.qnn.quantize.ranges import choose_range as choose_range
from byoc.relay.qnn.quantize.ranges import quantize_weights as quantize_weights
from byoc.relay.qnn.quantize.regions import RegionQuantizer as RegionQuantizer
from byoc.relay.qnn.quantize.regions import quantization_of as quantization_of
from byoc.relay.qnn.quantize.static import StaticQuantizer as StaticQuantizer
