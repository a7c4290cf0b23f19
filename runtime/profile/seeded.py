"""Inputs for a run of which only the time counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.core.small_types import SMALL_INTEGERS


def seeded_inputs(specs: Sequence[TensorSpec], sizes: Mapping[str, int] | None = None) -> dict[str, object]:
    """Seeded numbers for inputs of these *specs*, by name; a free dimension is 1 unless *sizes* names it."""
    rng = np.random.default_rng(0)
    return {spec.name: _seeded(spec, sizes or {}, rng) for spec in specs}


def _seeded(spec: TensorSpec, sizes: Mapping[str, int], rng: np.random.Generator) -> np.ndarray:
    shape = tuple(d if isinstance(d, int) else sizes.get(d or "", 1) for d in spec.shape)
    dtype = numpy_dtype(spec.dtype)
    if dtype.kind in "iubO" or spec.dtype in SMALL_INTEGERS:
        values = np.asarray(rng.integers(0, 2, shape))
        return (values.astype(str) if dtype.kind == "O" else values).astype(dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype)
