"""Seeded inputs for what is run without any: the same ones every time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from byoc.errors import UserError
from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.derived_size import is_derived
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.small_types import SMALL_INTEGERS

MAX_BYTES = 1 << 36


def seeded_inputs(specs: Iterable[TensorSpec], sizes: Mapping[str, int], seed: int = 0) -> dict[str, np.ndarray]:
    """An array for each of *specs*; a free dimension is 1 unless *sizes* names it, or it follows from others.

    Floats are standard normal, integers 0 or 1, which every index may be. Raises UserError for what no machine holds.
    """
    rng = np.random.default_rng(seed)
    listed = list(specs)
    free = {d: 1 for spec in listed for d in spec.shape if isinstance(d, str) and not is_derived(d)}
    bound = Sizes({**free, **sizes})
    return {spec.name: _random(spec, bound, rng) for spec in listed}


def _random(spec: TensorSpec, sizes: Sizes, rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else sizes[d] if sizes.determines(d) else 1 for d in spec.shape)
    dtype = numpy_dtype(spec.dtype)
    if math.prod(shape) * dtype.itemsize > MAX_BYTES:
        raise UserError(f"input {spec.name!r}: {spec.dtype}{list(shape)} is more than {MAX_BYTES:,} bytes; give less")
    if dtype.kind in "iubO" or spec.dtype in SMALL_INTEGERS:
        values = np.asarray(rng.integers(0, 2, shape))
        return (values.astype(str) if dtype.kind == "O" else values).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
