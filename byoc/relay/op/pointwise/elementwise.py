"""Operators on each element by itself: ``y[i] = f(x[i])``. Source: ``relay/op/tensor/unary.cc``.

Code is generated for floating-point functions of floats; for ``abs``, ``sign``, ``negative``, ``clip`` and the
roundings also of integers. What else Relay types (``log`` of integers) the numpy kernels compute, rounded toward zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs, written
from byoc.ir.op import ComputeOf, DtypePredicate, OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation, Inputs
from byoc.ir.registry import register_func
from byoc.ir.traits import EDGE, POINTWISE, SAME, STEP, Conversion, Scaling, Traits, pointwise
from byoc.ir.types import STORED, TensorType, Type, dtype_bits, dtype_bytes
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import (
    identity,
    identity_as,
    is_float,
    is_integer,
    is_number,
    only,
    tensor_arg,
)
from byoc.relay.op.core.untyped_inputs import same_as_result
from byoc.te.expr import OF_BITS

Scalar = Callable[[te.PrimExpr], te.PrimExpr]
UnaryBuilder = Callable[[Operand], Call]


@dataclass(frozen=True)
class CastAttrs(Attrs):
    """Attributes of ``cast`` and ``reinterpret``."""

    dtype: str = written("float32")


@dataclass(frozen=True)
class ClipAttrs(Attrs):
    """Attributes of ``clip``."""

    a_min: float = float("-inf")
    a_max: float = float("inf")


def each_element(function: Scalar, name: str) -> ComputeOf[Attrs | None, te.Tensor, Type]:
    """The definition ``y[i, …] = function(x[i, …])``."""

    def compute(attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
        data = inputs[0]
        return [te.compute(data.shape, lambda *i: function(data[i]), name)]

    return compute


def _unary(
    name: str,
    function: Scalar,
    doc: str,
    code_for: DtypePredicate | None,
    samples: Sequence[Sample],
    traits: Traits = POINTWISE,
    level: int = 10,
) -> UnaryBuilder:
    register_op(
        name,
        inputs=Inputs(("data",), infer=same_as_result),
        rel=identity,
        doc=doc,
        pattern=OpPattern.ELEMWISE,
        traits=traits,
        compute=Implementation(each_element(function, name), code_for=code_for),
        samples=samples,
    ).set_support_level(level)
    return _builder(name, doc)


def _of_floats(name: str, doc: str, samples: Sequence[Sample], traits: Traits, level: int = 10) -> UnaryBuilder:
    """The operator that is called as the function of floating-point numbers in ``byoc.te``."""
    return _unary(name, getattr(te, name), doc, _floats, samples, traits, level)


def _to_whole(name: str, doc: str) -> UnaryBuilder:
    """The operator that rounds as the function of its name in ``byoc.te`` does, and leaves integers as they are."""
    function = getattr(te, name)
    return _unary(name, lambda x: function(x) if is_float(x.dtype) else x, doc, _numbers, _HALVES, _JUMPS, level=3)


def _test_of_floats(name: str, doc: str) -> UnaryBuilder:
    """An operator that says of each number whether it is of a kind."""
    register_op(
        name,
        inputs=("data",),
        rel=identity_as("bool"),
        doc=doc,
        pattern=OpPattern.ELEMWISE,
        traits=POINTWISE,
        compute=Implementation(each_element(getattr(te, name), name), code_for=_floats),
        samples=_SPECIAL,
    ).set_support_level(3)
    return _builder(name, doc)


def _builder(name: str, doc: str) -> UnaryBuilder:
    def build(data: Operand) -> Call:
        return make_call(name, [as_expr(data)])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc}\n\n``data: any[...] -> the same shape``. Source: ``relay.{name}``."
    return build


def _absolute(x: te.PrimExpr) -> te.PrimExpr:
    return x if x.dtype.startswith("uint") else te.abs(x)


def _negative(x: te.PrimExpr) -> te.PrimExpr:
    """The negative of 0 is -0 in floating point, which a difference from 0 would not give."""
    return te.binary("sub", te.const(-0.0, x.dtype), x) if is_float(x.dtype) else -x


def _sign(x: te.PrimExpr) -> te.PrimExpr:
    if is_float(x.dtype):
        return te.sign(x)
    one, zero = te.const(1, x.dtype), te.const(0, x.dtype)
    return (
        te.cast(x.dtype, x > 0)
        if x.dtype[0] == "u"
        else te.if_then_else(x > 0, one, te.if_then_else(x < 0, te.const(-1, x.dtype), zero))
    )


_floats, _numbers = only(is_float), only(is_number)
_ANY = (Sample([(2, 3)]), Sample([()]), Sample([(4,)], dtype="float64"))
_POSITIVE = (Sample([(2, 3)], low=0.1, high=4.0), Sample([(3,)], dtype="float64", low=0.1, high=4.0))
_INSIDE = (Sample([(2, 3)], low=-0.9, high=0.9), Sample([(3,)], dtype="float64", low=-0.9, high=0.9))
_ABOVE_ONE = (Sample([(2, 3)], low=1.1, high=4.0),)
_MIXED = (*_ANY, Sample([(2, 5)], dtype="int32", low=-4, high=4))
_SPECIAL = (Sample([np.array([0.0, np.nan, np.inf, -np.inf, -1.5], "float32")]),)
_HALVES = (*_MIXED, Sample([np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 7.0], "float32")]))

_FOLLOW, _NEVER = Conversion.FOLLOW, Conversion.NEVER
_EDGE, _JUMPS = {0: EDGE}, pointwise(sensitive={0: STEP}, idempotent=True)
_LOGARITHM, _ROOT = pointwise(costly=1.0, sensitive=_EDGE), pointwise(costly=0.15, sensitive=_EDGE)

exp = _of_floats(
    "exp",
    "The exponential of each element.",
    (*_ANY, *_SPECIAL),
    pointwise(costly=1.0, precision=_NEVER, fast_form="fast_exp"),
    level=1,
)
exp2 = _of_floats("exp2", "Two to the power of each element.", _ANY, pointwise(costly=1.0))
expm1 = _of_floats("expm1", "``exp(x) - 1``, exact near 0.", _ANY, pointwise(costly=1.5))
log = _of_floats(
    "log", "The natural logarithm of each element.", _POSITIVE, replace(_LOGARITHM, precision=_NEVER), level=1
)
log2 = _of_floats("log2", "The logarithm to base 2.", _POSITIVE, _LOGARITHM, level=1)
log10 = _of_floats("log10", "The logarithm to base 10.", _POSITIVE, _LOGARITHM, level=1)
log1p = _of_floats("log1p", "``log(1 + x)``, exact near 0.", _POSITIVE, pointwise(costly=1.5, sensitive=_EDGE))
sqrt = _of_floats("sqrt", "The square root of each element.", _POSITIVE, replace(_ROOT, precision=_FOLLOW), level=1)
rsqrt = _of_floats("rsqrt", "The reciprocal of the square root.", _POSITIVE, _ROOT, level=1)
sin = _of_floats("sin", "The sine of each element in radians.", _ANY, pointwise(costly=1.5), level=1)
cos = _of_floats("cos", "The cosine of each element in radians.", _ANY, pointwise(costly=1.5), level=1)
tan = _of_floats("tan", "The tangent of each element in radians.", _INSIDE, pointwise(costly=3.0), level=1)
asin = _of_floats("asin", "The inverse sine.", _INSIDE, pointwise(costly=3.0, sensitive=_EDGE), level=1)
acos = _of_floats("acos", "The inverse cosine.", _INSIDE, pointwise(costly=3.0, sensitive=_EDGE), level=1)
atan = _of_floats("atan", "The inverse tangent.", _ANY, pointwise(costly=1.5), level=1)
sinh = _of_floats("sinh", "The hyperbolic sine.", _ANY, pointwise(costly=3.0), level=1)
cosh = _of_floats("cosh", "The hyperbolic cosine.", _ANY, pointwise(costly=3.0), level=1)
tanh = _of_floats(
    "tanh",
    "The hyperbolic tangent.",
    (*_ANY, *_SPECIAL),
    pointwise(costly=1.5, precision=_FOLLOW, activation=True, fast_form="fast_tanh"),
    level=1,
)
asinh = _of_floats("asinh", "The inverse hyperbolic sine.", _ANY, pointwise(costly=3.0), level=1)
acosh = _of_floats(
    "acosh", "The inverse hyperbolic cosine.", _ABOVE_ONE, pointwise(costly=3.0, sensitive=_EDGE), level=1
)
atanh = _of_floats("atanh", "The inverse hyperbolic tangent.", _INSIDE, pointwise(costly=3.0, sensitive=_EDGE), level=1)
erf = _of_floats(
    "erf", "The Gauss error function.", _ANY, pointwise(costly=3.5, precision=_NEVER, fast_form="fast_erf"), level=1
)
sigmoid = _of_floats(
    "sigmoid",
    "``1 / (1 + exp(-x))``.",
    (*_ANY, *_SPECIAL),
    pointwise(costly=1.5, precision=_FOLLOW, activation=True),
    level=1,
)
floor = _to_whole("floor", "The greatest whole number that is not above.")
ceil = _to_whole("ceil", "The least whole number that is not below.")
round = _to_whole("round", "The nearest whole number, halves to the even one.")
trunc = _to_whole("trunc", "The whole number toward zero.")
abs = _unary(
    "abs",
    _absolute,
    "The absolute value of each element.",
    _numbers,
    (*_MIXED, *_SPECIAL),
    pointwise(precision=_FOLLOW, scaling=Scaling.PASSES, idempotent=True),
    level=3,
)
sign = _unary("sign", _sign, "-1, 0 or 1 by the sign of each element.", _numbers, _MIXED, _JUMPS, level=3)
negative = _unary(
    "negative",
    _negative,
    "Each element with its sign turned.",
    _numbers,
    _MIXED,
    pointwise(precision=_FOLLOW, scaling=Scaling.PASSES),
    level=3,
)
_COPIED = (*_MIXED, Sample([(3,)], dtype="bool"))
copy = _unary("copy", lambda x: x, "The same tensor in memory of its own.", None, _COPIED, SAME, level=3)
isnan = _test_of_floats("isnan", "True where an element is not a number.")
isinf = _test_of_floats("isinf", "True where an element is infinite.")
isfinite = _test_of_floats("isfinite", "True where an element is finite.")
logical_not = _unary(
    "logical_not",
    te.logical_not,
    "The negation of each truth value.",
    only(lambda dtype: dtype == "bool"),
    (Sample([(2, 3)], dtype="bool"),),
    level=4,
)
bitwise_not = _unary(
    "bitwise_not",
    te.bitwise_not,
    "Each bit of an integer turned.",
    only(is_integer),
    (Sample([(2, 3)], dtype="int32", low=-9, high=9), Sample([(3,)], dtype="uint8", low=0, high=9)),
    level=4,
)


def _cast_rel(types: Sequence[Type], attrs: CastAttrs) -> Type:
    return TensorType(tensor_arg(types, 0).shape, attrs.dtype)


def _cast_compute(attrs: CastAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data, dtype = inputs[0], out_type.dtype
    if dtype == "bool":  # nonzero is true, also between 0 and 1
        return [te.compute(data.shape, lambda *i: _truth(data[i]), "cast")]
    return [te.compute(data.shape, lambda *i: te.cast(dtype, data[i]), "cast")]


def _truth(x: te.PrimExpr) -> te.PrimExpr:
    return x if x.dtype == "bool" else te.binary("ne", x, 0)


register_op(
    "cast",
    inputs=("data",),
    attrs=CastAttrs,
    rel=_cast_rel,
    pattern=OpPattern.ELEMWISE,
    traits=pointwise(precision=Conversion.FOLLOW),
    compute=_cast_compute,
    doc="Each element as another dtype: floats to integers truncate, numbers to bool ask for nonzero.",
    samples=(
        Sample([(2, 3)], {"dtype": "int32"}),
        Sample([(2, 3)], {"dtype": "float64"}),
        Sample([(4,)], {"dtype": "bool"}),
        Sample([(4,)], {"dtype": "float32"}, dtype="bool"),
        Sample([(4,)], {"dtype": "int8"}, dtype="int64"),
    ),
).set_support_level(3)


def cast(data: Operand, dtype: str) -> Call:
    """*data* as *dtype*. Source: ``relay.cast``."""
    return make_call("cast", [as_expr(data)], CastAttrs(str(dtype)))


register_func("relay.op.overload.cast", cast)


def _cast_like_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    return TensorType(tensor_arg(types, 0).shape, tensor_arg(types, 1, "dtype_like").dtype)


register_op(
    "cast_like",
    inputs=("data", "dtype_like"),
    rel=_cast_like_rel,
    pattern=OpPattern.ELEMWISE,
    traits=pointwise(precision=Conversion.FOLLOW),
    compute=_cast_compute,
    doc="The first input as the dtype of the second.",
    samples=(Sample([(2, 3), np.zeros(1, "int32")]), Sample([(2, 3), np.zeros(1, "bool")])),
).set_support_level(3)


def cast_like(data: Operand, dtype_like: Operand) -> Call:
    """*data* as the dtype of *dtype_like*. Source: ``relay.cast_like``."""
    return make_call("cast_like", [as_expr(data), as_expr(dtype_like)])


def _stored_bits(dtype: str) -> int:
    """The bits that a reading as another dtype goes over: of a bool the whole byte."""
    return 8 if dtype == "bool" else dtype_bits(dtype)


def _reinterpret_rel(types: Sequence[Type], attrs: CastAttrs) -> Type:
    data = tensor_arg(types, 0)
    if _stored_bits(data.dtype) != _stored_bits(attrs.dtype):
        raise TypeInferenceError(f"the bits of {data.dtype} cannot be read as {attrs.dtype}: another size")
    return TensorType(data.shape, attrs.dtype)


def _reinterpret_compute(attrs: CastAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    return [te.compute(data.shape, lambda *i: _read_as(data[i], out_type.dtype), "reinterpret")]


def _read_as(x: te.PrimExpr, dtype: str) -> te.PrimExpr:
    """The bits of *x*, which are as many, as a *dtype*: by way of the unsigned integer of that width."""
    is_number = x.dtype == "bool" or (is_integer(x.dtype) and x.dtype not in STORED)
    bits = te.cast(f"uint{8 * dtype_bytes(dtype)}", x) if is_number else te.bits(x)
    return te.of_bits(dtype, bits) if f"{dtype}_of_bits" in OF_BITS else te.cast(dtype, bits)


register_op(
    "reinterpret",
    inputs=("data",),
    attrs=CastAttrs,
    rel=_reinterpret_rel,
    pattern=OpPattern.ELEMWISE,
    compute=_reinterpret_compute,
    traits=POINTWISE,
    doc="The bits of each element read as another dtype of the same size.",
    samples=(Sample([(2, 3)], {"dtype": "int32"}),),
).set_support_level(3)


def reinterpret(data: Operand, dtype: str) -> Call:
    """The bits of *data* read as *dtype*. Source: ``relay.reinterpret``."""
    return make_call("reinterpret", [as_expr(data)], CastAttrs(str(dtype)))


def clip_bounds(dtype: str, a_min: float, a_max: float) -> tuple[float | None, float | None]:
    """The bounds as numbers of *dtype*; None where a bound lets every number through."""
    if is_float(dtype):
        return (None if a_min == -np.inf else float(a_min), None if a_max == np.inf else float(a_max))
    info = np.iinfo(dtype)
    low = None if a_min <= info.min else int(np.ceil(min(a_min, info.max)))
    high = None if a_max >= info.max else int(np.floor(max(a_max, info.min)))
    return low, high


def _clip_compute(attrs: ClipAttrs, inputs: Sequence[te.Tensor], out_type: TensorType) -> list[te.Tensor]:
    data = inputs[0]
    low, high = clip_bounds(data.dtype, attrs.a_min, attrs.a_max)

    def element(*i: te.PrimExpr) -> te.PrimExpr:
        x: te.PrimExpr = data[i]
        x = x if low is None else te.maximum(x, low)
        return x if high is None else te.minimum(x, high)

    return [te.compute(data.shape, element, "clip")]


register_op(
    "clip",
    inputs=("data",),
    attrs=ClipAttrs,
    rel=identity,
    pattern=OpPattern.ELEMWISE,
    traits=pointwise(precision=Conversion.FOLLOW, activation=True),
    compute=Implementation(_clip_compute, code_for=_numbers),
    doc="Each element moved into [a_min, a_max]; NaN stays.",
    samples=(
        Sample([(2, 3)], {"a_min": -0.5, "a_max": 1.0}),
        Sample([(5,)], {"a_min": 0.0, "a_max": 6.0}, "int32", -9, 9),
        Sample([(4,)], {"a_max": 0.5}),
        Sample([(9,)], {"a_min": -1.0, "a_max": 300.0}, "uint8", 0, 255),
        Sample([np.array([np.nan, np.inf, -np.inf], "float32")], {"a_min": -1.0, "a_max": 1.0}),
    ),
).set_support_level(3)


def clip(a: Operand, a_min: float, a_max: float) -> Call:
    """*a* moved into [a_min, a_max]. Source: ``relay.clip``."""
    return make_call("clip", [as_expr(a)], ClipAttrs(float(a_min), float(a_max)))
