"""Between element types. Source: ONNX Cast-1 to 28, CastLike-15 to 25, BitCast-26.

What does not fit a float of 8 bits becomes its largest number, or NaN or infinity without ``saturate``. Strings are
written and read as ONNX Runtime does.
"""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import constant
from byoc.relay.frontend.onnx.dtypes import dtype_of
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter
from byoc.relay.op import strings

# the largest number of each; float4_e2m1fn has no NaN and no infinity, and always saturates
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0, "float8_e5m2": 57344.0, "float8_e5m2fnuz": 57344.0}
_POWER = "float8_e8m0fnu"  # of two alone: the exponent of a float32, from 2 ** -127 to 2 ** 127
_FRACTION, _FRACTION_BITS, _SIGN = 0x7FFFFF, 23, -(2**31)
# the least fraction that adds 1 to the exponent, of a normal float32 and of one below 2 ** -126, by how it rounds
_ROUNDING = {"up": (1, 0x400001), "down": (0x800000, 0x800000), "nearest": (0x400000, 0x600000)}


@converter("Cast")
def _cast_by_name(node: OnnxNode) -> RelayExpr:
    """Before opset 6 the type was given by its name."""
    name = node.attrs.string("to").lower().replace("double", "float64")
    return _cast_to(node, "float32" if name == "float" else name)


@converter("Cast", since=6)
def _cast(node: OnnxNode) -> RelayExpr:
    return _cast_to(node, dtype_of(node.attrs.int("to"), f"the target of node {node.name}"))


@converter("BitCast", since=26)
def _bit_cast(node: OnnxNode) -> RelayExpr:
    return relay.reinterpret(node[0], dtype_of(node.attrs.int("to"), f"the target of node {node.name}"))


@converter("CastLike")
def _cast_like(node: OnnxNode) -> RelayExpr:
    return _cast_to(node, node.dtype(node[1]))


def _cast_to(node: OnnxNode, target: str) -> RelayExpr:
    data = node[0]
    if node.dtype(data) == target:
        return data
    if target == "string":
        return strings.from_number(data)
    if node.dtype(data) == "string":
        return strings.to_number(data, target)
    saturate = node.attrs.int("saturate", 1) != 0
    if target == _POWER:
        return _power_of_two(node, data, saturate, node.attrs.string("round_mode", "up"))
    return saturated(node, data, target) if saturate else relay.cast(data, target)


def saturated(node: OnnxNode, data: RelayExpr, target: str) -> RelayExpr:
    """*data* as *target*; what is beyond a float of 8 bits, infinities included, is its largest number. NaN stays."""
    if target not in _LARGEST:
        return relay.cast(data, target)
    largest, source = _LARGEST[target], node.dtype(data)
    wide = data if source in ("float16", "bfloat16", "float32", "float64") else relay.cast(data, "float32")
    return relay.cast(relay.clip(wide, -largest, largest), target)


def _power_of_two(node: OnnxNode, data: RelayExpr, saturate: bool, mode: str) -> RelayExpr:
    """*data* as ``float8_e8m0fnu``, by the bits of its float32; NaN for what is negative.

    With *saturate* what is above 2 ** 127 becomes that, what is below 2 ** -127 that, zero included; without, NaN.
    Raises ImportModelError for another way of rounding than ONNX's three.
    """
    if mode not in _ROUNDING:
        raise node.error(f"round_mode is {', '.join(_ROUNDING)}, got {mode!r}")
    number = relay.cast(data, "float32")
    bits = relay.reinterpret(number, "int32")
    fraction = relay.bitwise_and(bits, _int(_FRACTION))
    exponent = relay.bitwise_and(relay.right_shift(bits, _int(_FRACTION_BITS)), _int(0xFF))
    normal, subnormal = _ROUNDING[mode]
    least = relay.where(relay.equal(exponent, _int(0)), _int(subnormal), _int(normal))
    rounded = relay.add(exponent, relay.cast(relay.greater_equal(fraction, least), "int32"))
    nan = relay.logical_or(
        relay.isnan(number), relay.logical_and(relay.less(bits, _int(0)), relay.not_equal(bits, _int(_SIGN)))
    )
    if not saturate:
        below = relay.logical_and(relay.equal(exponent, _int(0)), relay.less(fraction, _int(0x400000)))
        above = relay.greater(bits, _int(0xFE << _FRACTION_BITS))
        nan = relay.logical_or(nan, relay.logical_or(below, above))
    code = relay.where(nan, _int(0xFF), relay.minimum(rounded, _int(0xFE)))
    return relay.reinterpret(relay.cast(code, "uint8"), _POWER)


def _int(value: int) -> RelayExpr:
    return constant(value, "int32")
