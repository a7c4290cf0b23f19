"""Numpy kernels on each element by itself."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.error_function import erf
from byoc.runtime.kernels.registry import kernel
from byoc.runtime.ndarray import numpy_dtype


def _rounding(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    return lambda x: function(x) if x.dtype.kind == "f" else x.copy()


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


# functions whose result has the dtype of the input
SAME_DTYPE: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10,
    "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "sigmoid": _sigmoid, "erf": erf,
    "floor": _rounding(np.floor), "ceil": _rounding(np.ceil), "round": _rounding(np.rint),
    "trunc": _rounding(np.trunc), "abs": np.abs, "sign": np.sign, "negative": np.negative, "copy": np.array,
    "logical_not": np.logical_not, "bitwise_not": np.bitwise_not,
}
PREDICATES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite,
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
    """The elements as another dtype."""
    with np.errstate(all="ignore"):
        return data.astype(numpy_dtype(dtype))


@kernel("cast_like")
def cast_like(data: np.ndarray, dtype_like: np.ndarray) -> np.ndarray:
    """The elements as the dtype of another array."""
    with np.errstate(all="ignore"):
        return data.astype(dtype_like.dtype)


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
