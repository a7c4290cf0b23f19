"""Numpy kernels on each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.small_types import SMALL, SMALL_INTEGERS
from byoc.runtime.kernels.core.error_function import erf
from byoc.runtime.kernels.core.registry import kernel


def _rounding(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: x.copy() if x.dtype.kind in "biu" else function(x)


def _sigmoid(x: np.ndarray) -> np.ndarray:
    result: np.ndarray = 1 / (1 + np.exp(-x))
    return result


# functions whose result has the dtype of the input
SAME_DTYPE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "sigmoid": _sigmoid,
    "erf": erf,
    "floor": _rounding(np.floor),
    "ceil": _rounding(np.ceil),
    "round": _rounding(np.rint),
    "trunc": _rounding(np.trunc),
    "abs": np.abs,
    "sign": np.sign,
    "negative": np.negative,
    "copy": np.array,
    "logical_not": np.logical_not,
    "bitwise_not": np.bitwise_not,
}
PREDICATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
}


def _same_dtype(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    def run(data: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(data)).astype(data.dtype, copy=False)

    return run


def _predicate(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda data: np.asarray(function(data), bool)


for _name, _function in SAME_DTYPE.items():
    kernel(_name)(_same_dtype(_function))
for _name, _function in PREDICATES.items():
    kernel(_name)(_predicate(_function))


@kernel("cast")
def cast(data: np.ndarray, *, dtype: str) -> np.ndarray:
    """The elements as another dtype.

    Floats are cut off towards zero. As a uint32 or uint64, what a signed integer of 64 bits holds wraps from there
    (-5.5 is 4294967291); where uint64 has no room either, the answer is 0, but 2**63 as a uint64 of a NaN and of what
    is below all integers of 64 bits. Other integers leave what does not fit them to the processor, as C does.
    """
    return _converted(data, numpy_dtype(dtype))


def _converted(data: np.ndarray, dtype: np.dtype) -> np.ndarray:
    if data.dtype.name in SMALL and dtype.name in SMALL:  # between which ml_dtypes has not every cast
        integers = {data.dtype.name, dtype.name} <= set(SMALL_INTEGERS)
        data = data.astype(np.int8 if integers else np.float32)
    with np.errstate(all="ignore"):
        if dtype not in (np.uint32, np.uint64) or data.dtype.kind in "biuUSO":
            return data.astype(dtype)
        wide = data.astype(np.float64)
    above = wide >= 2.0**63
    result = np.where((wide >= -(2.0**63)) & ~above, wide, -(2.0**63)).astype(np.int64).astype(dtype)
    upper = above & (wide < 2.0**64 if dtype == np.uint64 else False)
    result[above] = 0
    result[upper] = wide[upper].astype(dtype)
    return result


@kernel("cast_like")
def cast_like(data: np.ndarray, dtype_like: np.ndarray) -> np.ndarray:
    """The elements as the dtype of another array."""
    return _converted(data, dtype_like.dtype)


@kernel("reinterpret")
def reinterpret(data: np.ndarray, *, dtype: str) -> np.ndarray:
    """The bits of the elements read as another dtype of the same size."""
    return np.array(data, order="C").view(numpy_dtype(dtype))


@kernel("clip")
def clip(data: np.ndarray, *, a_min: float, a_max: float) -> np.ndarray:
    """The elements moved into [a_min, a_max]; bounds outside an integer dtype let everything through."""
    if data.dtype.kind in "iu":
        info = np.iinfo(data.dtype)
        low = info.min if a_min <= info.min else math.ceil(min(a_min, info.max))
        high = info.max if a_max >= info.max else math.floor(max(a_max, info.min))
        return np.asarray(np.minimum(np.maximum(data, data.dtype.type(low)), data.dtype.type(high)))
    low, high = data.dtype.type(a_min), data.dtype.type(a_max)
    return np.asarray(np.minimum(np.maximum(data, low), high))
