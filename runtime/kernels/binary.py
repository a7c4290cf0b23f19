"""Numpy kernels on two arrays, broadcast to one shape; the result has their dtype."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.core.broadcasting import broadcasting
from byoc.runtime.kernels.core.registry import kernel

BinaryFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]


def truncated_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a / b``, on integers rounded toward zero without a detour through floats."""
    if a.dtype.kind not in "iu":
        result: np.ndarray = np.divide(a, b)
        return result
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    result = quotient + inexact.astype(a.dtype)
    return result


def _trunc_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return truncated_divide(a, b) if a.dtype.kind in "iu" else np.trunc(np.divide(a, b))


def _floor_divide(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.floor_divide(a, b) if a.dtype.kind in "iu" else np.floor(np.divide(a, b))
    return result


def _power(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result: np.ndarray = np.power(a, b) if a.dtype.kind == "f" else np.power(a.astype("float64"), b.astype("float64"))
    return result


BINARY: dict[str, BinaryFunction] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": truncated_divide,
    "trunc_divide": _trunc_divide,
    "trunc_mod": np.fmod,
    "floor_divide": _floor_divide,
    "mod": np.fmod,
    "floor_mod": np.mod,
    "power": _power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}


def _kernel_of(name: str, function: BinaryFunction) -> BinaryFunction:
    def run(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"), broadcasting(name, {"lhs": lhs, "rhs": rhs}):
            return np.asarray(function(lhs, rhs)).astype(lhs.dtype, copy=False)

    return run


for _name, _function in BINARY.items():
    kernel(_name)(_kernel_of(_name, _function))
