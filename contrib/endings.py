"""Patterns of what libraries compute behind a product: a bias, and activations that several operators write."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from byoc.relay.dataflow_pattern import DFPattern, is_constant, is_op
from byoc.relay.op.nn.activation import BIAS_OPERATORS
from byoc.relay.op.pointwise.binary import FACTOR_OPERATORS


def any_op(names: Sequence[str], *operands: DFPattern) -> DFPattern:
    """A call of one of these operators with the *operands*."""
    calls: list[DFPattern] = [is_op(name)(*operands) for name in names]
    return functools.reduce(lambda a, b: a | b, calls)


def biased(product: DFPattern, bias: DFPattern) -> DFPattern:
    """*product* plus *bias*."""
    return any_op(BIAS_OPERATORS, product, bias)


def gelu_pattern(data: DFPattern) -> DFPattern:
    """``data * (1 + erf(data / sqrt(2))) * 0.5``, its factors in any order."""
    grown = is_op("erf")(any_op(FACTOR_OPERATORS, data, is_constant()))
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
