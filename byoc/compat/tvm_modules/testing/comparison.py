"""Comparing numbers: arrays within tolerances, gradients with differences. Source: ``tvm.testing.utils``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.errors import UserError
from byoc.runtime.core.ndarray import from_any


def assert_allclose(
    actual: object, desired: object, rtol: float = 1e-7, atol: float = 1e-7, verbose: bool = True
) -> None:
    """Raises AssertionError where shapes or numbers differ by more than the tolerances. Source: ``tvm.testing``."""
    left, right = np.asarray(from_any(actual)), np.asarray(from_any(desired))
    if left.shape != right.shape:
        raise AssertionError(f"the shapes differ: {left.shape} and {right.shape}")
    np.testing.assert_allclose(left, right, rtol=rtol, atol=atol, verbose=verbose)


def check_numerical_grads(
    function: Callable[..., float],
    input_values: Sequence[np.ndarray],
    grad_values: Sequence[np.ndarray],
    function_value: float | None = None,
    delta: float = 1e-3,
    atol: float = 1e-2,
    rtol: float = 0.1,
) -> None:
    """Raises AssertionError where *grad_values* are far from the differences of *function* around *input_values*.

    The distance is that of whole gradients: the norm of the difference is at most ``atol * sqrt(n)`` plus *rtol* of the
    numerical gradient's norm. Source: ``tvm.testing.check_numerical_grads``.
    """
    for index, (point, given) in enumerate(zip(input_values, grad_values, strict=True)):
        if point.shape != np.shape(given):
            raise AssertionError(f"the gradient of input {index} has shape {np.shape(given)}, the input {point.shape}")
        found = _differences(function, input_values, index, delta)
        distance, bound = np.linalg.norm(found - given), atol * np.sqrt(found.size) + rtol * np.linalg.norm(found)
        if distance > bound:
            raise AssertionError(
                f"the gradient of input {index} is {distance:.3g} away from the numerical one (at most {bound:.3g})"
            )


def _differences(function: Callable[..., float], inputs: Sequence[np.ndarray], index: int, delta: float) -> np.ndarray:
    """Central differences of *function* by each element of input *index*."""
    result = np.zeros(inputs[index].shape)
    for place in np.ndindex(*inputs[index].shape):
        ends = []
        for sign in (1, -1):
            moved = inputs[index].copy()
            moved[place] += sign * delta
            ends.append(float(function(*inputs[:index], moved, *inputs[index + 1 :])))
        result[place] = (ends[0] - ends[1]) / (2 * delta)
    return result


def get_dtype_range(dtype: str) -> tuple[float, float]:
    """The least and the greatest number of *dtype*. Raises UserError for a dtype without numbers."""
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        return int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    if kind.kind == "f":
        return float(np.finfo(kind).min), float(np.finfo(kind).max)
    raise UserError(f"{dtype} has no range of numbers")
