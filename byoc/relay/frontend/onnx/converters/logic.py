"""Comparisons, logic and bits."""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.elementwise import binary
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter

_COMPARE = {
    "Equal": "equal",
    "Less": "less",
    "Greater": "greater",
    "And": "logical_and",
    "Or": "logical_or",
    "Xor": "logical_xor",
}
_BITS = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "LessOrEqual": "less_equal",
    "GreaterOrEqual": "greater_equal",
}

for _op, _builder in _COMPARE.items():
    _old, _new = binary(_builder)
    converter(_op)(_old)
    converter(_op, since=7)(_new)
for _op, _builder in _BITS.items():
    converter(_op)(binary(_builder)[1])


@converter("Where")
def _where(node: OnnxNode) -> RelayExpr:
    return relay.where(node[0], node[1], node[2])
