"""Operators that compute each element by itself."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from byoc.relay.onnx_writer.graph import element_type
from byoc.relay.onnx_writer.rules import Rule, Written, needs, static

_SAME = {
    "nn.relu": "Relu",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "erf": "Erf",
    "sigmoid": "Sigmoid",
    "floor": "Floor",
    "ceil": "Ceil",
    "abs": "Abs",
    "sign": "Sign",
    "negative": "Neg",
    "isnan": "IsNaN",
    "isinf": "IsInf",
    "logical_not": "Not",
    "copy": "Identity",
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "power": "Pow",
    "maximum": "Max",
    "minimum": "Min",
    "logical_and": "And",
    "logical_or": "Or",
    "logical_xor": "Xor",
    "equal": "Equal",
    "less": "Less",
    "less_equal": "LessOrEqual",
    "greater": "Greater",
    "greater_equal": "GreaterOrEqual",
}


def same(at: Written) -> str:
    """An operator of ONNX that does the same, broadcasting as numpy does."""
    return at.value(_SAME[at.operator], *at.names)


def where(at: Written) -> str:
    """A choice by what is not 0."""
    condition, *values = at.names
    if at.type(0).dtype != "bool":
        condition = at.value("Cast", condition, to=element_type("bool"))
    return at.value("Where", condition, *values)


def not_equal(at: Written) -> str:
    """``Not`` of ``Equal``."""
    return at.value("Not", at.value("Equal", *at.names))


def divide(at: Written) -> str:
    """Of floats: integers are divided towards zero by ONNX, and by what byoc calls ``divide`` as in C too."""
    needs(at.result.dtype.startswith("float"), f"divide of {at.result.dtype}")
    return at.value("Div", *at.names)


def rsqrt(at: Written) -> str:
    """``1 / sqrt(x)``."""
    return at.value("Reciprocal", at.value("Sqrt", *at.names))


def cast(at: Written) -> str:
    """Between numbers; of floats to integers, what does not fit is said by neither side."""
    return at.value("Cast", *at.names, to=element_type(at.attrs.dtype))


def clip(at: Written) -> str:
    """With both bounds, in the tensor's dtype."""
    dtype = at.result.dtype
    needs(dtype.startswith("float"), f"clip of {dtype}")
    low, high = (at.graph.scalar(float(v), dtype) for v in (at.attrs.a_min, at.attrs.a_max))
    return at.value("Clip", *at.names, low, high)


def leaky_relu(at: Written) -> str:
    """``x if x >= 0 else alpha * x``; ONNX keeps alpha in float32."""
    exact = float(np.float32(at.attrs.alpha)) == float(at.attrs.alpha)
    needs(exact or at.result.dtype != "float64", "a leaky relu of float64 by a slope that float32 does not hold")
    return at.value("LeakyRelu", *at.names, alpha=float(at.attrs.alpha))


def prelu(at: Written) -> str:
    """A slope for each channel, which ONNX broadcasts from the right."""
    return at.value("PRelu", at.names[0], along_axis(at, 1, int(at.attrs.axis), len(at.type(0).shape)))


def bias_add(at: Written) -> str:
    """A sum along one axis."""
    return at.value("Add", at.names[0], along_axis(at, 1, int(at.attrs.axis), len(at.type(0).shape)))


def along_axis(at: Written, number: int, axis: int, rank: int) -> str:
    """The vector that is argument *number* with as many axes behind it as it needs to lie along *axis* of *rank*."""
    (size,) = static(at.type(number))
    behind = rank - 1 - axis % rank
    if not behind:
        return at.names[number]
    return at.value("Reshape", at.names[number], at.graph.constant(np.array([size] + [1] * behind, "int64")))


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_SAME, same),
    "where": where,
    "not_equal": not_equal,
    "divide": divide,
    "rsqrt": rsqrt,
    "cast": cast,
    "clip": clip,
    "nn.leaky_relu": leaky_relu,
    "nn.prelu": prelu,
    "nn.bias_add": bias_add,
}
