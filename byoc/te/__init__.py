"""Tensor expressions: how one output element is computed from inputs. One description for every generated language."""

from byoc.te.evaluate import evaluate
from byoc.te.expr import Dimension, Index, PrimExpr, Size, as_expr, cast, const
from byoc.te.tensor import (
    Tensor, abs, acos, acosh, all, all_of, any, argmax, argmin, asin, asinh, atan, atan2, atanh, bitwise_not, ceil,
    compute, cos, cosh, dimension, erf, exp, exp2, expm1, floor, fmod, if_then_else, isfinite, isinf, isnan, log,
    log1p, log2, log10, logical_not, max, maximum, min, minimum, placeholder, power, prod, reduce_axis, round, rsqrt,
    shape_of, sigmoid, sign, sin, sinh, sqrt, sum, tan, tanh, trunc,
)
from byoc.te.expr import binary

__all__ = [name for name in dir() if not name.startswith("_")]
