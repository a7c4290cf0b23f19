"""Patterns of activations that are written as several operators, which libraries compute behind a product."""

from __future__ import annotations

from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op


def gelu_pattern(data: DFPattern) -> DFPattern:
    """``data * (1 + erf(data / sqrt(2))) * 0.5``, its factors in any order."""
    grown = is_op("erf")(is_op("divide")(data, is_constant()) | is_op("multiply")(data, is_constant()))
    factor = is_op("add")(grown, is_constant())
    multiply = is_op("multiply")
    return (
        multiply(multiply(data, factor), is_constant())
        | multiply(multiply(data, is_constant()), factor)
        | multiply(data, multiply(factor, is_constant()))
    )


def swish_pattern(data: DFPattern) -> DFPattern:
    """``data * sigmoid(data)``."""
    return is_op("multiply")(data, is_op("sigmoid")(data))


def mish_pattern(data: DFPattern) -> DFPattern:
    """``data * tanh(log(exp(data) + 1))``."""
    return is_op("multiply")(data, is_op("tanh")(is_op("log")(is_op("add")(is_op("exp")(data), is_constant()))))
