"""The builders of all quantized operators under the module name that Relay has for them."""

from byoc.relay.qnn.op.binary import add, mul, subtract
from byoc.relay.qnn.op.join import concatenate
from byoc.relay.qnn.op.pool import avg_pool2d
from byoc.relay.qnn.op.products import batch_matmul, contrib_dense_pack, conv2d, conv2d_transpose, dense
from byoc.relay.qnn.op.quantize import (
    SQNN_CODE_TO_DTYPE,
    SQNN_DTYPE_TO_CODE,
    dequantize,
    quantize,
    simulated_dequantize,
    simulated_quantize,
)
from byoc.relay.qnn.op.requantize import (
    RequantizeConfig,
    current_requantize_config,
    requantize,
    requantize_config,
)
from byoc.relay.qnn.op.unary import (
    abs,
    erf,
    exp,
    hardswish,
    leaky_relu,
    log,
    rsqrt,
    sigmoid,
    softmax,
    sqrt,
    tanh,
)

__all__ = [
    "SQNN_CODE_TO_DTYPE",
    "SQNN_DTYPE_TO_CODE",
    "RequantizeConfig",
    "abs",
    "add",
    "avg_pool2d",
    "batch_matmul",
    "concatenate",
    "contrib_dense_pack",
    "conv2d",
    "conv2d_transpose",
    "current_requantize_config",
    "dense",
    "dequantize",
    "erf",
    "exp",
    "hardswish",
    "leaky_relu",
    "log",
    "mul",
    "quantize",
    "requantize",
    "requantize_config",
    "rsqrt",
    "sigmoid",
    "simulated_dequantize",
    "simulated_quantize",
    "softmax",
    "sqrt",
    "subtract",
    "tanh",
]
