"""SimplifyExpr's rules of arithmetic: neutral elements, constants in a row, full tensors, roots and powers.

There are two sets. ``ARITHMETIC`` is the pipeline's: a constant of any shape may be neutral, and sums and products of
two constants are left as calls, which FoldConstant computes within its budget. ``RELAY_ARITHMETIC`` is that of Relay's
pass: only a scalar constant is neutral, two constants are one at once, and binomials are factored. Source:
``SimplifyAdd``, ``SimplifyRSqrt``, ``EliminateIdentity``, ``SwitchAddMultiply``, ``SimplifyAdjacentMultiplyOrAdd``,
``FullElementwise`` of ``src/relay/transforms/simplify_expr.cc``; powers, repetitions and biases are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import Numbers
from byoc.ir.types import TensorType
from byoc.relay.analysis.operator_calls import calls, traits_of
from byoc.relay.expr import Call, Constant, constant
from byoc.relay.narrowing import as_call, channel_values, operator_of, tensor_type
from byoc.relay.transform.base.call_rules import ByOperator, call_op
from byoc.relay.transform.simplify.rules import (
    Rule,
    folded,
    is_all,
    is_constant,
    law,
    merged,
    of_constants,
    spans_of,
    with_constant,
)


@law("f(f(x)) = f(x)")
def idempotent(call: Call) -> RelayExpr | None:
    """``f(f(x))`` is ``f(x)``."""
    return call.args[0] if calls(call.args[0], operator_of(call).name) else None


def neutral(value: float, either: bool, any_shape: bool = True) -> Rule:
    """``x op value`` is x; with *either* also ``value op x``. Without *any_shape* a constant must be a scalar."""

    def is_neutral(expr: RelayExpr) -> bool:
        counts = any_shape or not isinstance(expr, Constant) or expr.data.ndim == 0
        return counts and is_all(expr, value)

    @law(f"x op {value:g} = x" + (f", {value:g} op x = x" if either else ""))
    def rule(call: Call) -> RelayExpr | None:
        for data, other in (call.args, reversed(call.args)) if either else (call.args,):
            if is_neutral(other) and data.checked_type == call.checked_type:
                return data if tensor_type(call).is_symbolic else None
        return None

    return rule


@law("(x + a) + b = x + (a + b), and so for products", Numbers.ROUNDING)
def adjacent_constants(call: Call, combine: Combine = of_constants) -> RelayExpr | None:
    """``(x op c1) op c2`` is ``x op (c1 op c2)``, for sums and for products, constants on either side.

    *combine* makes the sum or product of two constants.
    """
    name, outer = operator_of(call).name, with_constant(call)
    if outer is None or not calls(outer[0], name):
        return None
    inner = with_constant(outer[0])
    if inner is None:
        return None
    both = combine(name, inner[1], outer[1])
    return None if both is None else merged(name, [inner[0], both], {}, outer[0], call)


@law("(x + a) * b = x * b + a * b", Numbers.ROUNDING)
def switch_add_multiply(call: Call, combine: Combine = of_constants) -> RelayExpr | None:
    """``(x + c1) * c2`` is ``x * c2 + c1 * c2``, which FoldScaleAxis can go on with."""
    outer = with_constant(call)
    if outer is None or not calls(outer[0], "add"):
        return None
    inner = with_constant(outer[0])
    if inner is None or inner[0].checked_type != call.checked_type:
        return None
    shift = combine("multiply", inner[1], outer[1])
    if shift is None:
        return None
    return merged("add", [call_op("multiply", [inner[0], outer[1]], call.span), shift], {}, outer[0], call)


@law("x + x = x * 2")
def doubled(call: Call) -> RelayExpr | None:
    """``x + x`` is ``x * 2``."""
    left, right = call.args
    ty = call.checked_type
    if left is not right or is_constant(left) or not isinstance(ty, TensorType) or ty.dtype == "bool":
        return None
    return merged("multiply", [left, constant(2, ty.dtype)], {}, call)


def _is_power_of_two(expr: RelayExpr) -> bool:
    """Whether *expr* is a constant by which a product is exact."""
    return is_constant(expr) and bool((np.frexp(np.abs(folded(expr).data.numpy().astype("float64")))[0] == 0.5).all())


def _adds_epsilon(expr: RelayExpr) -> bool:
    """Whether *expr* is a sum with a constant between 0 and MOST_EPSILON."""
    parts = with_constant(expr) if calls(expr, "add") else None
    if parts is None:
        return False
    value = folded(parts[1]).data.numpy().astype("float64")
    return bool(((value > 0) & (value <= MOST_EPSILON)).all())


@law("x / sqrt(y) = x * rsqrt(y)", Numbers.ROUNDING)
def reciprocal_root(call: Call) -> RelayExpr | None:
    """``x / sqrt(y)`` is ``x * rsqrt(y)`` where x is a power of two, or y adds the small constant of a norm.

    Another product with a reciprocal may be the quotient's neighbour. That is nothing to a norm, whose constant is
    arbitrary; but other quotients may be compared or rounded down, and a length divided by itself is 1.
    """
    numerator, root = call.args
    if not calls(root, "sqrt") or numerator is root:
        return None
    if not _is_power_of_two(numerator) and not _adds_epsilon(root.args[0]):
        return None
    inverse = call_op("rsqrt", [root.args[0]], spans_of(root, call))
    return merged("multiply", [numerator, inverse], {}, call)


def _full_value(expr: RelayExpr, dtype: str) -> Constant | None:
    """The one value of a full tensor as a scalar; None for anything else."""
    traits = traits_of(expr)
    if traits is not None and traits.fill is not None:
        return constant(traits.fill, dtype, expr.span)
    if traits is not None and traits.value_operand is not None:
        value = as_call(expr).args[traits.value_operand]
        if isinstance(value, Constant) and value.data.ndim == 0 and value.data.dtype == dtype:
            return value
    return None


@law("a tensor of one value beside another is that value")
def full_operand(call: Call) -> RelayExpr | None:
    """A full tensor beside one of the result's type is a scalar."""
    ty = call.checked_type
    for k, other in enumerate(call.args):
        data = call.args[1 - k]
        value = _full_value(other, ty.dtype) if isinstance(ty, TensorType) and data.checked_type == ty else None
        if value is not None:
            args = [value, data] if k == 0 else [data, value]
            return Call(call.op, args, call.attrs, call.type_args, call.span)
    return None


@law("x ** 2 = x * x, x ** 3 = x * x * x, x ** 1 = x", Numbers.ROUNDING)
def power(call: Call) -> RelayExpr | None:
    """A number to the power of 1, 2 or 3 is itself, its square, its cube by products.

    That is tens of times faster, and exact on integers, whose powers go through float64.
    """
    data, exponent = call.args
    result = call.checked_type
    if not isinstance(exponent, Constant) or not isinstance(result, TensorType) or data.checked_type != result:
        return None
    if not result.is_symbolic or not result.dtype.startswith(("float", "int", "uint")):
        return None
    if is_all(exponent, 1):
        return data
    square = merged("multiply", [data, data], {}, call)
    if is_all(exponent, 2):
        return square
    return merged("multiply", [square, data], {}, call) if is_all(exponent, 3) else None


@law("bias_add(x, b) + c = bias_add(x, b + c)", Numbers.ROUNDING)
def add_to_bias(call: Call) -> RelayExpr | None:
    """``bias_add(x, b) + c`` is ``bias_add(x, b + c)`` for constants along one axis."""
    outer = with_constant(call)
    if outer is None or not calls(outer[0], "nn.bias_add") or outer[0].checked_type != call.checked_type:
        return None
    data, bias = outer[0].args
    result = call.checked_type
    if not isinstance(bias, Constant) or not isinstance(result, TensorType):
        return None
    attrs = outer[0].attrs
    more = channel_values(folded(outer[1]), int(attrs["axis"]) % result.ndim, result)
    if more is None:
        return None
    both = constant((bias.data.numpy() + more).astype(bias.data.dtype), span=spans_of(bias, outer[1]))
    return Call(outer[0].op, [data, both], attrs, span=spans_of(outer[0], call))


def _at_once(name: str, left: RelayExpr, right: RelayExpr) -> Constant | None:
    """The sum or product of two constants as a constant; None where it is larger than either."""
    both = of_constants(name, left, right)
    return None if both is None else folded(both)


@law("a x x + b x + c = a (x - r) (x - s) with its roots r and s", Numbers.ROUNDING)
def factored(call: Call) -> RelayExpr | None:
    """A binomial as a square."""
    from byoc.relay.transform.simplify.binomials import binomial  # of Relay's pass alone

    return binomial(call)


@law("(x + a) + b = x + (a + b), and so for products", Numbers.ROUNDING)
def adjacent_constants_at_once(call: Call) -> RelayExpr | None:
    """:func:`adjacent_constants` with one constant in the end."""
    return adjacent_constants(call, _at_once)


@law("(x + a) * b = x * b + a * b", Numbers.ROUNDING)
def switch_add_multiply_at_once(call: Call) -> RelayExpr | None:
    """:func:`switch_add_multiply` with one constant in the end."""
    return switch_add_multiply(call, _at_once)


Combine = Callable[[str, RelayExpr, RelayExpr], RelayExpr | None]
MOST_EPSILON = 0.1
_NEUTRAL: dict[str, Rule] = {
    "add": neutral(0.0, either=True),
    "multiply": neutral(1.0, either=True),
    "subtract": neutral(0.0, either=False),
    "divide": neutral(1.0, either=False),
}
RELAY_NEUTRAL: dict[str, Rule] = {
    "add": neutral(0.0, either=True, any_shape=False),
    "multiply": neutral(1.0, either=True, any_shape=False),
    "subtract": neutral(0.0, either=False, any_shape=False),
    "divide": neutral(1.0, either=False, any_shape=False),
}


def _by_traits(op: Op) -> tuple[Rule, ...] | None:
    if op.traits.is_pointwise and op.input_names == ("lhs", "rhs"):
        return (full_operand,)
    return (idempotent,) if op.traits.idempotent else None


_BY_NAME: dict[str, tuple[Rule, ...]] = {
    "add": (_NEUTRAL["add"], doubled, full_operand, adjacent_constants, add_to_bias),
    "multiply": (_NEUTRAL["multiply"], full_operand, switch_add_multiply, adjacent_constants),
    "subtract": (_NEUTRAL["subtract"], full_operand),
    "divide": (_NEUTRAL["divide"], reciprocal_root, full_operand),
    "power": (power, full_operand),
}

ARITHMETIC: Mapping[str, tuple[Rule, ...]] = ByOperator(_by_traits, _BY_NAME)

_RELAY_BY_NAME: dict[str, tuple[Rule, ...]] = {
    "add": (
        RELAY_NEUTRAL["add"],
        factored,
        doubled,
        full_operand,
        adjacent_constants_at_once,
        add_to_bias,
    ),
    "multiply": (
        RELAY_NEUTRAL["multiply"],
        full_operand,
        switch_add_multiply_at_once,
        adjacent_constants_at_once,
    ),
    "subtract": (RELAY_NEUTRAL["subtract"], full_operand),
    "divide": (RELAY_NEUTRAL["divide"], reciprocal_root, full_operand),
}
RELAY_ARITHMETIC: Mapping[str, tuple[Rule, ...]] = ByOperator(ARITHMETIC, _RELAY_BY_NAME)
