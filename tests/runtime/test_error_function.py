"""The vectorised error function against ``math.erf``, element by element."""

from __future__ import annotations

import math

import numpy as np
import pytest

from byoc.runtime.kernels.core.error_function import CHUNK, LARGEST, MIDDLE, SMALL, erf
from byoc.runtime.kernels.core.registry import get_kernel

EDGES = [0.0, -0.0, SMALL, MIDDLE, LARGEST, 1e-300, 5e-324, 1e-40, 27.0, 1e300, math.inf, -math.inf]


def reference(x: np.ndarray) -> np.ndarray:
    return np.array([math.erf(v) for v in x.ravel().tolist()]).reshape(x.shape)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_erf_is_within_five_units_in_the_last_place_of_math_erf(dtype: type) -> None:
    rng = np.random.default_rng(0)
    neighbours = [np.nextafter(e, s) for e in (SMALL, MIDDLE, LARGEST) for s in (-math.inf, math.inf)]
    x = np.concatenate([np.linspace(-7, 7, 20001), rng.normal(size=5000) * 1e-3, EDGES, neighbours])
    with np.errstate(over="ignore"):
        x = x.astype(dtype)
    want = reference(x)
    error = np.abs(erf(x).astype(np.float64) - want) / np.spacing(np.abs(want).astype(dtype)).astype(np.float64)
    assert error.max() <= 5, f"{error.max()} units at {x[error.argmax()]!r}"


def test_float16_is_the_nearest_float16() -> None:
    x = np.linspace(-4, 4, 999).astype(np.float16)
    np.testing.assert_array_equal(erf(x), reference(x.astype(np.float64)).astype(np.float32).astype(np.float16))


def test_nan_stays_nan_and_a_zero_keeps_its_sign() -> None:
    got = erf(np.array([np.nan, -0.0, 0.0]))
    assert np.isnan(got[0])
    assert np.signbit(got[1]) and not np.signbit(got[2])


@pytest.mark.parametrize("shape", [(), (0, 3), (3, CHUNK - 1), (2, 3, 4)])
def test_any_shape_and_any_strides_are_kept(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).normal(size=shape).T
    assert erf(x).shape == x.shape
    np.testing.assert_allclose(erf(x), reference(x), rtol=1e-15, atol=0)


def test_the_operator_erf_runs_on_it() -> None:
    x = np.random.default_rng(2).normal(size=1000).astype(np.float32)
    np.testing.assert_array_equal(get_kernel("erf")(x), erf(x))
