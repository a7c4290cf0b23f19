"""Real multipliers as 32-bit significands and powers of two, and products with them in 64-bit integers.

``x * m`` is ``x * significand * 2**(shift - 31)``. UPWARD rounds halves up, TONEAREST away from zero. Source: Relay's
``GetFixedPointMultiplierShift``, ``FixedPointMultiply`` and ``FixedPointMultiplyToNearest``.
"""

from __future__ import annotations

import math

import numpy as np

from byoc.runtime.kernels.qnn.rounding import UPWARD

FRACTION_BITS = 31


def multiplier_and_shift(multiplier: float) -> tuple[int, int]:
    """The Q31 significand of *multiplier* and the power of two beside it.

    A multiplier below ``2**-32`` is 0: its product with a 32-bit integer rounds to 0, and a shift by more than 62 bits
    has no meaning.
    """
    if multiplier == 0.0:
        return 0, 0
    fraction, exponent = math.frexp(multiplier)
    significand = math.floor(abs(fraction) * (1 << FRACTION_BITS) + 0.5) * (1 if fraction > 0 else -1)
    if abs(significand) == 1 << FRACTION_BITS:
        significand //= 2
        exponent += 1
    return (0, 0) if exponent < -FRACTION_BITS else (significand, exponent)


def multiply_fixed_point(values: np.ndarray, multipliers: np.ndarray, rounding: str) -> np.ndarray:
    """int32 *values* times float64 *multipliers*, which broadcast, rounded to int32."""
    parts = [multiplier_and_shift(float(m)) for m in multipliers.reshape(-1)]
    significand = np.array([p[0] for p in parts], np.int64).reshape(multipliers.shape)
    shift = np.array([p[1] for p in parts], np.int64).reshape(multipliers.shape)
    wide = np.left_shift(values.astype(np.int64), np.maximum(shift, 0))
    bits = FRACTION_BITS + np.maximum(-shift, 0)
    half = np.left_shift(np.int64(1), bits - 1)
    if rounding != UPWARD:
        half = half - (wide < 0)
    result: np.ndarray = np.right_shift(wide * significand + half, bits).astype(np.int32)
    return result
