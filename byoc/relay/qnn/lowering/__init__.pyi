"""The names of this package, for editors and type checkers, and for its lazy loading."""

from byoc.relay.qnn.lowering import convolution as convolution
from byoc.relay.qnn.lowering import elementwise as elementwise
from byoc.relay.qnn.lowering import join as join
from byoc.relay.qnn.lowering import matrix_products as matrix_products
from byoc.relay.qnn.lowering import pool as pool
from byoc.relay.qnn.lowering import quantize as quantize
from byoc.relay.qnn.lowering import requantize as requantize
