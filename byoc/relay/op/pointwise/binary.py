"""Operators on two tensors, broadcast to one shape. Source: ``relay/op/tensor/binary.cc``.

On integers ``divide`` and ``mod`` truncate toward zero as C does, ``floor_divide`` and ``floor_mod`` round toward
minus infinity as Python does. Both sides have one dtype, whatever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from byoc import te
from byoc.ir.attrs import Attrs
from byoc.ir.op import ComputeOf, DtypePredicate, OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import EDGE, POINTWISE, STEP, Conversion, Scaling, Traits, pointwise
from byoc.ir.types import TensorType
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, make_binary
from byoc.relay.op.core.indexing import broadcast_load
from byoc.relay.op.core.type_relations import broadcast, is_float, is_integer, is_number, only

Scalar = Callable[[te.PrimExpr, te.PrimExpr], te.PrimExpr]
BinaryBuilder = Callable[[Operand, Operand], Call]


def each_pair(function: Scalar, name: str) -> ComputeOf[Attrs | None, te.Tensor, TensorType]:
    """The definition ``y[i] = function(a[i], b[i])`` over the broadcast shape."""

    def compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
        lhs, rhs = inputs
        shape = te.shape_of(out_type)
        return [
            te.compute(shape, lambda *i: function(broadcast_load(lhs, i, shape), broadcast_load(rhs, i, shape)), name)
        ]

    return compute


def binary_operator(
    name: str,
    function: Scalar,
    doc: str,
    code_for: DtypePredicate | None,
    samples: Sequence[Sample],
    traits: Traits = POINTWISE,
    level: int = 10,
) -> BinaryBuilder:
    """Register a broadcasting operator of two inputs, with the support level *level*, and return its builder."""
    register_op(
        name,
        inputs=("lhs", "rhs"),
        rel=broadcast,
        doc=doc,
        pattern=OpPattern.BROADCAST,
        traits=traits,
        compute=Implementation(each_pair(function, name), code_for=code_for),
        samples=samples,
    ).set_support_level(level)
    return binary_builder(name, doc)


def binary_builder(name: str, doc: str) -> BinaryBuilder:
    """The function that builds calls of the broadcasting operator *name* of two inputs."""

    def build(lhs: Operand, rhs: Operand) -> Call:
        return make_binary(name, lhs, rhs)

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc}\n\nBoth sides broadcast; a number takes the other side's dtype. Source: ``relay.{name}``."
    return build


def _is(op: str) -> Scalar:
    return lambda a, b: te.binary(op, a, b)


def _signs_differ(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    return te.binary("ne", a < 0, b < 0)


def truncated_divide(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    """``a / b``, on integers toward zero."""
    if not a.dtype.startswith("int"):
        return a / b
    inexact = te.all_of(te.binary("ne", a % b, 0), _signs_differ(a, b))
    return te.if_then_else(inexact, a // b + 1, a // b)


def _truncated_mod(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    if is_float(a.dtype):
        return te.fmod(a, b)
    if a.dtype.startswith("uint"):
        return a % b
    inexact = te.all_of(te.binary("ne", a % b, 0), _signs_differ(a, b))
    return te.if_then_else(inexact, a % b - b, a % b)


def _trunc_divide(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    return te.trunc(a / b) if is_float(a.dtype) else truncated_divide(a, b)


def _floor_divide(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    return te.floor(a / b) if is_float(a.dtype) else a // b


def _floor_mod(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    if not is_float(a.dtype):
        return a % b
    rest = te.fmod(a, b)
    return te.if_then_else(te.all_of(te.binary("ne", rest, 0), _signs_differ(rest, b)), rest + b, rest)


def _power(a: te.PrimExpr, b: te.PrimExpr) -> te.PrimExpr:
    if is_float(a.dtype):
        return te.power(a, b)
    return te.cast(a.dtype, te.power(te.cast("float64", a), te.cast("float64", b)))


_FLOATS = (Sample([(2, 3), (2, 3)]), Sample([(2, 1, 3), (4, 1)]), Sample([(3,), ()], dtype="float64"))
_SEVEN, _DIVISORS = np.array([-7, -7, 7, 7, -6, 0], "int32"), np.array([2, -2, 2, -2, 3, 5], "int32")
_INTS = (Sample([_SEVEN, _DIVISORS]), Sample([_SEVEN.reshape(2, 3), np.array([3], "int32")]))
_UINTS = (Sample([np.array([9, 200], "uint8"), np.array([4, 7], "uint8")]),)
_NAN = np.array([np.nan, 1.0, 2.0], "float32")
_BITS = (Sample([np.array([[12, 10, -3]], "int32"), np.array([[10], [7]], "int32")]), *_UINTS)
_BOOLS = (Sample([(2, 3), (3,)], dtype="bool"),)
_MODS = (*_INTS, *_UINTS, Sample([(_SEVEN / 2).astype("float32"), _DIVISORS.astype("float32")]))
FACTOR_OPERATORS = ("divide", "multiply")
"""The operators by which a model may scale, as patterns name them: those with the trait ``Scaling.FACTOR``."""
_STEPS = pointwise(costly=0.15, sensitive={0: STEP, 1: STEP})  # each divides
_DIFFERENCE = pointwise(precision=Conversion.FOLLOW, scaling=Scaling.SUM)
_SUM = replace(_DIFFERENCE, either_order=True)
_SCALE = pointwise(precision=Conversion.FOLLOW, scaling=Scaling.FACTOR)
_CHOICE = pointwise(carries=(0, 1), chooses=True, precision=Conversion.FOLLOW)
_numbers = only(is_number)
_integers = only(is_integer)
_bools = only(lambda dtype: dtype == "bool")
_bits = only(lambda dtype: is_integer(dtype) or dtype == "bool")

add = binary_operator("add", _is("add"), "The sum of two tensors.", _numbers, (*_FLOATS, *_INTS), _SUM, level=1)
subtract = binary_operator(
    "subtract",
    _is("sub"),
    "The difference of two tensors.",
    _numbers,
    (*_FLOATS, *_INTS),
    _DIFFERENCE,
    level=1,
)
multiply = binary_operator(
    "multiply",
    _is("mul"),
    "The product element by element.",
    _numbers,
    (*_FLOATS, *_INTS),
    pointwise(precision=Conversion.FOLLOW, scaling=Scaling.FACTOR, either_order=True),
    level=1,
)
divide = binary_operator(
    "divide",
    truncated_divide,
    "The quotient; integers round toward zero.",
    _numbers,
    (*_FLOATS, *_INTS, *_UINTS),
    pointwise(costly=0.15, precision=Conversion.FOLLOW, scaling=Scaling.FACTOR, sensitive={1: EDGE}),
    level=1,
)
trunc_divide = binary_operator(
    "trunc_divide", _trunc_divide, "The quotient rounded toward zero, of floats too.", _numbers, _MODS, _STEPS
)
trunc_mod = binary_operator(
    "trunc_mod", _truncated_mod, "What a quotient rounded toward zero leaves.", _numbers, _MODS, _STEPS
)
floor_divide = binary_operator(
    "floor_divide",
    _floor_divide,
    "The quotient rounded toward minus infinity.",
    _numbers,
    _MODS,
    _STEPS,
    level=1,
)
mod = binary_operator(
    "mod", _truncated_mod, "The remainder, with the sign of the dividend.", _numbers, _MODS, _STEPS, level=1
)
floor_mod = binary_operator(
    "floor_mod",
    _floor_mod,
    "The remainder, with the sign of the divisor.",
    _numbers,
    _MODS,
    _STEPS,
    level=1,
)
power = binary_operator(
    "power",
    _power,
    "The left side to the power of the right.",
    _numbers,
    (Sample([(2, 3), (3,)], low=0.2), Sample([np.array([2, -3], "int32"), np.array([5, 3], "int32")])),
    pointwise(costly=3.0, precision=Conversion.NEVER, sensitive={0: EDGE}),
    level=4,
)
maximum = binary_operator(
    "maximum",
    te.maximum,
    "The larger of two elements; NaN wins.",
    _numbers,
    (*_FLOATS, *_INTS, Sample([_NAN, _NAN[::-1].copy()])),
    _CHOICE,
    level=4,
)
minimum = binary_operator(
    "minimum",
    te.minimum,
    "The smaller of two elements; NaN wins.",
    _numbers,
    (*_FLOATS, *_INTS, Sample([_NAN, _NAN[::-1].copy()])),
    _CHOICE,
    level=4,
)
_SHIFTS = (Sample([np.array([5, -9, 64], "int32"), np.array([1, 2, 3], "int32")]),)
left_shift = binary_operator("left_shift", _is("shift_left"), "Bits moved to the left.", _integers, _SHIFTS, level=4)
right_shift = binary_operator(
    "right_shift", _is("shift_right"), "Bits moved to the right.", _integers, _SHIFTS, level=4
)
bitwise_and = binary_operator("bitwise_and", _is("bit_and"), "The conjunction of bits.", _bits, _BITS, level=4)
bitwise_or = binary_operator("bitwise_or", _is("bit_or"), "The disjunction of bits.", _bits, _BITS, level=4)
bitwise_xor = binary_operator("bitwise_xor", _is("bit_xor"), "Bits that differ.", _bits, _BITS, level=4)
logical_and = binary_operator("logical_and", _is("and"), "True where both are.", _bools, _BOOLS, level=4)
logical_or = binary_operator("logical_or", _is("or"), "True where either is.", _bools, _BOOLS, level=4)
logical_xor = binary_operator("logical_xor", _is("ne"), "True where exactly one is.", _bools, _BOOLS, level=4)
