"""oneDNN's numbers for what operators compute. Source: ``dnnl_alg_kind_t``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

GELU, SWISH = "onednn.gelu", "onednn.swish"
FORWARD = 0x60  # dnnl_forward_inference
CONVOLUTION, DECONVOLUTION = 0x1, 0xA
MAX_POOL, AVG_POOL_WITH_PADDING, AVG_POOL = 0x1FF, 0x2FF, 0x3FF
LRN, NEAREST, LINEAR = 0xAFF, 0x2FFF0, 0x2FFF1
USE_GLOBAL, USE_SCALE, USE_SHIFT = 1, 2, 4
SOFTMAX: Mapping[str, int] = {"nn.softmax": 0x30000, "nn.log_softmax": 0x30001}
REDUCTIONS: Mapping[str, int] = {"max": 0x2FFF2, "min": 0x2FFF3, "sum": 0x2FFF4, "prod": 0x2FFF5, "mean": 0x2FFF6}
ADD, MUL, MAX, MIN, DIV, SUB = range(0x1FFF0, 0x1FFF6)
BINARY: Mapping[str, int] = {
    "add": ADD,
    "multiply": MUL,
    "maximum": MAX,
    "minimum": MIN,
    "divide": DIV,
    "subtract": SUB,
}
COMMUTATIVE = frozenset((ADD, MUL, MAX, MIN))
Algorithm = tuple[int, float, float]  # the number, and the two that it takes

# its logarithm has no right digit near 1 (of 1 + 1e-6 it gives 2.4e-6), nor has its mish, which is made of it
_PLAIN: Mapping[str, Algorithm] = {
    "nn.relu": (0x20, 0.0, 0.0),
    "tanh": (0x21, 0.0, 0.0),
    "abs": (0x24, 0.0, 0.0),
    "sqrt": (0x25, 0.0, 0.0),
    "negative": (0x26, -1.0, 0.0),
    "sigmoid": (0x29, 0.0, 0.0),
    "exp": (0x2A, 0.0, 0.0),
    "rsqrt": (0x30, 1.0, -0.5),
    "round": (0x32, 0.0, 0.0),
    SWISH: (0x2C, 1.0, 0.0),
    GELU: (0x31, 0.0, 0.0),
}


def _same(function: Algorithm) -> Callable[[Mapping[str, Any]], Algorithm]:
    """Of an operator without attributes."""
    return lambda attributes: function


ELTWISE: Mapping[str, Callable[[Mapping[str, Any]], Algorithm]] = {
    **{name: _same(function) for name, function in _PLAIN.items()},
    "nn.leaky_relu": lambda attributes: (0x20, float(attributes["alpha"]), 0.0),
    "clip": lambda attributes: (0x2F, float(attributes["a_min"]), float(attributes["a_max"])),
}
