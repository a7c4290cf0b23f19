"""Arithmetic element by element, with the broadcasting of each opset, and the functions of one tensor."""

from __future__ import annotations

from collections.abc import Callable

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.dtypes import FLOATS
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import Converter, converter

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Erf": "erf",
    "Exp": "exp",
    "Floor": "floor",
    "Log": "log",
    "Neg": "negative",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "IsNaN": "isnan",
    "Not": "logical_not",
    "BitwiseNot": "bitwise_not",
}
_BINARY = {"Add": "add", "Sub": "subtract", "Mul": "multiply", "Div": "divide"}


def _unary(builder: str) -> Converter:
    return lambda node: getattr(relay, builder)(node[0])


for _op, _builder in _UNARY.items():
    converter(_op)(_unary(_builder))


def legacy_operands(node: OnnxNode) -> tuple[RelayExpr, RelayExpr]:
    """The operands of a binary operator before opset 7: the right one is aligned to *axis* when ``broadcast`` is 1."""
    left, right = node[0], node[1]
    if not node.attrs.flag("broadcast"):
        return left, right
    free = node.rank(left) - node.rank(right)
    axis = node.attrs.int("axis", free)
    if axis < 0:
        axis += node.rank(left)
    trailing = free - axis
    if trailing < 0 or axis < 0:
        raise node.error(
            f"broadcast axis {axis} does not fit shapes {list(node.shape(left))} and {list(node.shape(right))}"
        )
    return left, relay.expand_dims(right, node.rank(right), trailing) if trailing else right


def binary(builder: str) -> tuple[Converter, Converter]:
    """The converters of a binary operator: before opset 7 and since."""

    def old(node: OnnxNode) -> RelayExpr:
        result: RelayExpr = getattr(relay, builder)(*legacy_operands(node))
        _refuse_zero(node, builder)
        return result

    def new(node: OnnxNode) -> RelayExpr:
        result: RelayExpr = getattr(relay, builder)(node[0], node[1])
        _refuse_zero(node, builder)
        return result

    return old, new


def _refuse_zero(node: OnnxNode, builder: str = "divide") -> None:
    """Raise ImportModelError where integers are divided by a constant 0, which ONNX leaves open."""
    divisor = node.value(1) if builder == "divide" else None
    if divisor is not None and divisor.dtype.kind in "iu" and not divisor.all():
        raise node.error("integers are divided by a constant 0; correct the divisor, or divide floats")


for _op, _builder in _BINARY.items():
    _old, _new = binary(_builder)
    converter(_op)(_old)
    converter(_op, since=7)(_new)


def _power(node: OnnxNode, base: RelayExpr, exponent: RelayExpr) -> RelayExpr:
    """The result has the type of the base; an integer base with a float exponent is computed as float."""
    kind, other = node.dtype(base), node.dtype(exponent)
    if kind == other:
        return relay.power(base, exponent)
    if kind in FLOATS:
        return relay.power(base, relay.cast(exponent, kind))
    wide = other if other in FLOATS else "int64"
    return relay.cast(relay.power(relay.cast(base, wide), relay.cast(exponent, wide)), kind)


@converter("Pow")
def _pow_legacy(node: OnnxNode) -> RelayExpr:
    return _power(node, *legacy_operands(node))


@converter("Pow", since=7)
def _pow(node: OnnxNode) -> RelayExpr:
    return _power(node, node[0], node[1])


@converter("Mod")
def _mod(node: OnnxNode) -> RelayExpr:
    """``fmod`` takes the dividend's sign as C does, else the divisor's."""
    _refuse_zero(node)
    return relay.mod(node[0], node[1]) if node.attrs.flag("fmod") else relay.floor_mod(node[0], node[1])


@converter("BitShift")
def _bit_shift(node: OnnxNode) -> RelayExpr:
    direction = node.attrs.string("direction")
    builders = {"LEFT": relay.left_shift, "RIGHT": relay.right_shift}
    if direction not in builders:
        raise node.error(f"direction is LEFT or RIGHT, got {direction!r}")
    return builders[direction](node[0], node[1])


@converter("Reciprocal")
def _reciprocal(node: OnnxNode) -> RelayExpr:
    return relay.divide(node.like(1, node[0]), node[0])


@converter("IsInf")
def _is_inf(node: OnnxNode) -> RelayExpr:
    positive, negative = node.attrs.flag("detect_positive", True), node.attrs.flag("detect_negative", True)
    zero = node.like(0, node[0])
    infinite = relay.isinf(node[0])
    if positive and negative:
        return infinite
    if positive:
        return relay.logical_and(infinite, relay.greater(node[0], zero))
    if negative:
        return relay.logical_and(infinite, relay.less(node[0], zero))
    return relay.zeros_like(infinite)


def _folded(builder: str) -> Callable[[OnnxNode], RelayExpr]:
    def convert(node: OnnxNode) -> RelayExpr:
        first, *rest = node.required_inputs()
        for operand in rest:
            first = getattr(relay, builder)(first, operand)
        return first

    return convert


for _op, _builder in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items():
    converter(_op)(_folded(_builder))


@converter("Mean")
def _mean(node: OnnxNode) -> RelayExpr:
    return relay.divide(_folded("add")(node), node.like(len(node.inputs), node[0]))


@converter("Identity", "Dropout")
def _identity(node: OnnxNode) -> RelayExpr:
    return node[0]
