"""Numpy kernels that compare two arrays; the result is bool."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.registry import kernel

COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
}


def _kernel_of(
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    return lambda lhs, rhs: np.asarray(function(lhs, rhs), bool)


for _name, _function in COMPARISONS.items():
    kernel(_name)(_kernel_of(_function))
