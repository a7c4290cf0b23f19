"""Numpy kernels that compare two arrays; the result is bool."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.core.broadcasting import broadcasting
from byoc.runtime.kernels.core.registry import kernel

COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}


def _kernel_of(
    name: str,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def run(lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
        with broadcasting(name, {"lhs": lhs, "rhs": rhs}):
            return np.asarray(function(lhs, rhs), bool)

    return run


for _name, _function in COMPARISONS.items():
    kernel(_name)(_kernel_of(_name, _function))
