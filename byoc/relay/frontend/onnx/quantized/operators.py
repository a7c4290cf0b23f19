"""Operators of ONNX Runtime on quantized tensors that compute in floats. Source: its domain com.microsoft.

QLinearAdd-1, QLinearMul-1, QLinearSigmoid-1, QLinearLeakyRelu-1, QLinearSoftmax-1, QLinearAveragePool-1,
QLinearGlobalAveragePool-1, QLinearReduceMean-1, QLinearWhere-1, QLinearConcat-1, NhwcMaxPool-1. Each is the operator of
ONNX between dequantized tensors and a quantized one, which is what ONNX Runtime computes (through tables for functions
of one tensor); as in a model with QuantizeLinear and DequantizeLinear nodes, backends get the form on integers.
"""

from __future__ import annotations

from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.converters.convolution import channels_first
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.quantized.scales import Quantisation, dequantize, quantize
from byoc.relay.frontend.onnx.registry import MICROSOFT, converter, find_converter
from byoc.runtime.kernels.qnn.rounding import MOVED_TOEVEN, TOEVEN

PREFIX = "QLinear"
OPSET = 11  # of ONNX, whose operators these are: axes are attributes
BYTES = ("int8", "uint8")


def _floats(node: OnnxNode, *places: int) -> list[RelayExpr]:
    """The quantized tensors at *places*, each followed by its scale and its zero point, as floats."""
    found = []
    for place in places:
        if node.dtype(node[place]) not in BYTES:
            raise node.error(f"input {place} is int8 or uint8, got {node.type_of(node[place])}")
        _check_one_number(node, place + 1)
        found.append(dequantize(node, node[place], Quantisation(place + 1, place + 2)))
    return found


def _check_one_number(node: OnnxNode, index: int) -> None:
    shape = node.shape(node[index])
    if shape not in ((), (1,)):
        raise node.error(f"the scale (input {index}) is one number, got {node.type_of(node[index])}")


def _computed(node: OnnxNode, inputs: list[RelayExpr], opset: int = OPSET) -> RelayExpr:
    """What the operator of ONNX of that name makes of *inputs*, in floats."""
    name = node.op_type.removeprefix(PREFIX)
    convert = find_converter("", name, opset)
    made = None if convert is None else convert(node.over(inputs, opset))
    if made is None:
        raise node.error(f"{name} of opset {opset} cannot be imported for these inputs")
    return made if isinstance(made, RelayExpr) else made[0]


def _bytes(node: OnnxNode, value: RelayExpr, scale: int, how: str = TOEVEN) -> RelayExpr:
    """*value* in the type of the quantized data, by the scale at *scale* and the zero point behind it."""
    _check_one_number(node, scale)
    zero = node.optional(scale + 1)
    return quantize(node, value, Quantisation(scale, scale + 1), node.dtype(node[0] if zero is None else zero), how)


@converter("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _of_two(node: OnnxNode) -> RelayExpr:
    """Inputs: a, its scale and zero point, b, its scale and zero point, the output's scale and zero point."""
    return _bytes(node, _computed(node, _floats(node, 0, 3)), 6)


@converter("QLinearSigmoid", "QLinearLeakyRelu", "QLinearReduceMean", domain=MICROSOFT)
def _of_one(node: OnnxNode) -> RelayExpr:
    """Inputs: the data, its scale and zero point, the output's scale and zero point."""
    return _bytes(node, _computed(node, _floats(node, 0)), 3)


@converter("QLinearAveragePool", domain=MICROSOFT)
def _average_pool(node: OnnxNode) -> RelayExpr:
    """ONNX Runtime adds the zero point before it rounds, here alone."""

    def pooled(node: OnnxNode) -> RelayExpr:
        return _bytes(node, _computed(node, _floats(node, 0)), 3, MOVED_TOEVEN)

    return channels_first(node, pooled, node.attrs.flag("channels_last"))


@converter("QLinearGlobalAveragePool", domain=MICROSOFT)
def _global_average_pool(node: OnnxNode) -> RelayExpr:
    """ONNX Runtime sums integers: a mean half-way between two of the result may be the other one here."""
    return channels_first(node, _of_one, node.attrs.flag("channels_last"))


@converter("QLinearSoftmax", domain=MICROSOFT)
def _softmax(node: OnnxNode) -> RelayExpr:
    """As *opset* of ONNX defines it."""
    return _bytes(node, _computed(node, _floats(node, 0), node.attrs.int("opset")), 3)


@converter("QLinearWhere", domain=MICROSOFT)
def _where(node: OnnxNode) -> RelayExpr:
    """Inputs: the condition, x, its scale and zero point, y, its own, the output's."""
    if node.optional(8) is None:
        raise node.error("input 8, the zero point of the output, is missing")
    return _bytes(node, _computed(node, [node[0], *_floats(node, 1, 4)]), 7)


@converter("QLinearConcat", domain=MICROSOFT)
def _concat(node: OnnxNode) -> RelayExpr:
    """Inputs: the output's scale and zero point, then each tensor, its scale and its zero point."""
    if len(node.inputs) < 5 or len(node.inputs) % 3 != 2:
        raise node.error(f"two inputs and then three for each tensor are expected, got {len(node.inputs)}")
    tensors = _floats(node, *range(2, len(node.inputs), 3))
    return _bytes(node, _computed(node, tensors), 0)


@converter("NhwcMaxPool", domain=MICROSOFT)
def _channels_last_max_pool(node: OnnxNode) -> RelayExpr:
    """MaxPool of bytes with channels innermost."""
    convert = find_converter("", "MaxPool", OPSET)
    assert convert is not None
    return channels_first(node, convert, True)
