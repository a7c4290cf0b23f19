"""Numpy kernels of ``fast_exp``, ``fast_tanh``, ``fast_erf`` and ``nn.fast_softmax``: the polynomials themselves.

Only float32 is approximated, as in TVM; other floats get the exact function. Sources: Cephes' ``expf``; Eigen's
rational functions of tanh on [-9, 9] and erf on [-4, 4] (``MathFunctionsImpl.h``, ``SpecialFunctions``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from byoc.runtime.kernels.core.error_function import erf
from byoc.runtime.kernels.core.layout import wide
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.reduce import extremum

EXP_LOW, EXP_HIGH = -88.3762626647949, 88.3762626647950
LOG2_E, LN_2 = 1.44269504088896341, 0.6931471805599453
# the polynomial of exp on [-ln 2 / 2, ln 2 / 2], highest power first
EXP = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
TANH_RANGE, ERF_RANGE = 9.0, 4.0
# odd numerators and even denominators in the square of x, highest power first
TANH = (
    (
        -2.76076847742355e-16,
        2.00018790482477e-13,
        -8.60467152213735e-11,
        5.12229709037114e-08,
        1.48572235717979e-05,
        6.37261928875436e-04,
        4.89352455891786e-03,
    ),
    (1.19825839466702e-06, 1.18534705686654e-04, 2.26843463243900e-03, 4.89352518554385e-03),
)
ERF = (
    (
        -2.72614225801306e-10,
        2.77068142495902e-08,
        -2.10102402082508e-06,
        -5.69250639462346e-05,
        -7.34990630326855e-04,
        -2.95459980854025e-03,
        -1.60960333262415e-02,
    ),
    (-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02),
)


def _polynomial(coefficients: Sequence[float], x: np.ndarray) -> np.ndarray:
    result = np.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        result = result * x + x.dtype.type(coefficient)
    return result


def _exp(data: np.ndarray) -> np.ndarray:
    one = data.dtype.type
    x = np.clip(data, one(EXP_LOW), one(EXP_HIGH))
    n = np.floor(x * one(LOG2_E) + one(0.5))
    rest = x - n * one(LN_2)
    series = _polynomial(EXP, rest) * rest * rest + rest + one(1)
    result: np.ndarray = np.ldexp(series, n.astype(np.int32))
    return result


def _quotient(coefficients: tuple[Sequence[float], Sequence[float]], bound: float) -> Callable[..., np.ndarray]:
    def function(data: np.ndarray) -> np.ndarray:
        x = np.clip(data, data.dtype.type(-bound), data.dtype.type(bound))
        square = x * x
        result: np.ndarray = x * _polynomial(coefficients[0], square) / _polynomial(coefficients[1], square)
        return result

    return function


def _on_float32(fast: Callable[..., np.ndarray], exact: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def function(data: np.ndarray) -> np.ndarray:
        if data.dtype != np.float32:
            return np.asarray(exact(data))
        with np.errstate(invalid="ignore"):
            return np.asarray(fast(data), np.float32)

    return function


_fast_exp = _on_float32(_exp, np.exp)
_fast_tanh = _on_float32(_quotient(TANH, TANH_RANGE), np.tanh)
_fast_erf = _on_float32(_quotient(ERF, ERF_RANGE), erf)


@kernel("fast_exp")
def fast_exp(data: np.ndarray) -> np.ndarray:
    """exp(x) within 4e-6 of it (n ln 2 is rounded once); beyond +-88.37 it stays at the value there."""
    return _fast_exp(data).astype(data.dtype, copy=False)


@kernel("fast_tanh")
def fast_tanh(data: np.ndarray) -> np.ndarray:
    """tanh(x) by a rational function of x within [-9, 9]."""
    return _fast_tanh(data).astype(data.dtype, copy=False)


@kernel("fast_erf")
def fast_erf(data: np.ndarray) -> np.ndarray:
    """erf(x) by a rational function of x within [-4, 4]."""
    return _fast_erf(data).astype(data.dtype, copy=False)


@kernel("nn.fast_softmax")
def fast_softmax(data: np.ndarray, *, axis: int = -1) -> np.ndarray:
    """softmax along *axis* with :func:`fast_exp` for exp."""
    x = wide(data)
    e = _fast_exp(np.asarray(x - extremum(x, axis, keepdims=True)))
    result: np.ndarray = (e / e.sum(axis, keepdims=True)).astype(data.dtype, copy=False)
    return result
