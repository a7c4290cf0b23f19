"""``fast_exp``, ``fast_tanh``, ``fast_erf``: functions by polynomials, for float32.

Coefficients and sources stand with the numpy kernels. Other floats get the exact function, as in TVM.
Source: ``relay.fast_exp`` and its kin, ``topi/elemwise.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc import te
from byoc.ir.expr import RelayExpr
from byoc.ir.op import OpPattern, Sample, register_op
from byoc.ir.op_parts import Implementation
from byoc.ir.traits import Conversion, pointwise
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import make_call
from byoc.relay.op.core.type_relations import identity, is_float, only
from byoc.relay.op.pointwise.elementwise import Scalar, each_element
from byoc.runtime.kernels import fast_math as numbers
from byoc.te import PrimExpr


def _polynomial(coefficients: Sequence[float], x: PrimExpr) -> PrimExpr:
    result: PrimExpr = te.const(coefficients[0], x.dtype)
    for coefficient in coefficients[1:]:
        result = result * x + coefficient
    return result


def _clipped(x: PrimExpr, low: float, high: float) -> PrimExpr:
    return te.minimum(te.maximum(x, te.const(low, x.dtype)), te.const(high, x.dtype))


def _exp(x: PrimExpr) -> PrimExpr:
    bounded = _clipped(x, numbers.EXP_LOW, numbers.EXP_HIGH)
    n = te.floor(bounded * numbers.LOG2_E + 0.5)
    rest = bounded - n * numbers.LN_2
    return te.exp2(n) * (_polynomial(numbers.EXP, rest) * rest * rest + rest + 1.0)


def _quotient(coefficients: tuple[Sequence[float], Sequence[float]], bound: float) -> Scalar:
    def function(x: PrimExpr) -> PrimExpr:
        bounded = _clipped(x, -bound, bound)
        square = bounded * bounded
        return bounded * _polynomial(coefficients[0], square) / _polynomial(coefficients[1], square)

    return function


def _on_float32(fast: Scalar, exact: Scalar) -> Scalar:
    return lambda x: fast(x) if x.dtype == "float32" else exact(x)


exp_of = _on_float32(_exp, te.exp)


_SAMPLES = (Sample([(2, 3)]), Sample([(40,)], low=-12.0, high=12.0), Sample([(4,)], dtype="float64"))


def _unary(name: str, function: Scalar, doc: str) -> Callable[[RelayExpr], Call]:
    register_op(
        name,
        inputs=("data",),
        rel=identity,
        doc=doc,
        pattern=OpPattern.ELEMWISE,
        traits=pointwise(costly=0.7, precision=Conversion.FOLLOW),
        compute=Implementation(each_element(function, name), code_for=only(is_float)),
        samples=_SAMPLES,
    ).set_support_level(1)

    def build(data: RelayExpr) -> Call:
        return make_call(name, [data])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{doc}\n\n``data: float[...] -> the same shape``. Source: ``relay.op.{name}``."
    return build


fast_exp = _unary("fast_exp", exp_of, "exp(x) by a polynomial.")
fast_tanh = _unary(
    "fast_tanh", _on_float32(_quotient(numbers.TANH, numbers.TANH_RANGE), te.tanh), "tanh(x) by a rational function."
)
fast_erf = _unary(
    "fast_erf", _on_float32(_quotient(numbers.ERF, numbers.ERF_RANGE), te.erf), "erf(x) by a rational function."
)
