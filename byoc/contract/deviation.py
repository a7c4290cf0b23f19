"""What a backend computes otherwise than ONNX does, said by the backend itself.

A vendor's library may be fast because it gives a corner up: its minimum takes whichever operand is a number. A backend
that knows such a corner declares it; users read it in its support table and in the report of what is compiled, and
``byoc certify`` holds the backend to it: nothing else may differ, and the certificate says where it was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Deviation:
    """A corner in which a backend's results may be other numbers.

    Attributes:
        code: a short name for reports.
        text: a sentence for users, without a full stop: what may differ, and when.
        free: for a result of the reference, an array of any shape and dtype, the elements that may be anything, as
            truth values of its shape. All others have to be right.
    """

    code: str
    text: str
    free: Callable[[np.ndarray], np.ndarray]

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


def _is_nan(result: np.ndarray) -> np.ndarray:
    return np.asarray(result != result, bool)


NAN_LOST = Deviation("nan", "a NaN may become a number: where the model gives NaN, other numbers may stand", _is_nan)


def _beside_not_finite(result: np.ndarray) -> np.ndarray:
    wild = result.dtype.kind == "f" and not np.isfinite(result).all()
    return np.full(result.shape, wild, bool)


NAN_SPREAD = Deviation(
    "nan_spread",
    "a NaN may spread: where an operator gives a NaN or an infinity, other elements of its result may be NaN too",
    _beside_not_finite,
)
