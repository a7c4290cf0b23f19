"""Inputs for a run that only prepares: of the shapes that a caller names, with numbers that operators take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from byoc.runtime.core.bound_sizes import Sizes
from byoc.runtime.core.errors import InputError
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.runtime.core.signature import TensorSpec
from byoc.runtime.graph.executor_base import as_input, check_known


def prepared_inputs(specs: Sequence[TensorSpec], given: Mapping[str, object]) -> dict[str, np.ndarray]:
    """An array for each of *specs*: what *given* has for its name, or ones of the shape that it has.

    Integers are 0, which is inside every dimension. An input that *given* leaves out takes its sizes from the others.

    Args:
        specs: the inputs of a model.
        given: shapes, which are tuples or lists of integers, or arrays, by the names of inputs.

    Raises:
        InputError: a name that no input has, a shape that does not fit, or a free size that nothing determines.
    """
    names = [spec.name for spec in specs]
    if not isinstance(given, Mapping):
        raise InputError(f"prepare takes shapes by the names of inputs ({', '.join(names)}), got {given!r}")
    check_known(names, given)
    sizes = Sizes()
    arrays: dict[str, np.ndarray] = {}
    for spec in specs:
        if spec.name in given:
            value = given[spec.name]
            shape = _shape_of(value)
            arrays[spec.name] = as_input(value, spec) if shape is None else ones(spec, shape)
            spec.bind(arrays[spec.name], sizes)
    for spec in specs:
        if spec.name not in arrays:
            free = [d for d in spec.shape if not isinstance(d, int) and (d is None or not sizes.determines(d))]
            if free:
                raise InputError(
                    f"prepare: the size {free[0] or 'of a dimension'} of input {spec.name}{spec} is free, and no "
                    f"shape determines it: give one, as in prepare({{{spec.name!r}: (...)}})"
                )
            arrays[spec.name] = ones(spec, spec.concrete_shape(sizes))
    return {name: arrays[name] for name in names}


def sizes_of(specs: Sequence[TensorSpec], arrays: Mapping[str, np.ndarray]) -> Sizes:
    """The named sizes of *specs* in *arrays*, which fit them."""
    sizes = Sizes()
    for spec in specs:
        spec.bind(arrays[spec.name], sizes)
    return sizes


def _shape_of(value: object) -> tuple[int, ...] | None:
    """*value* where it is a shape; an array's is None."""
    if not isinstance(value, tuple | list):
        return None
    sizes = [d for d in value if isinstance(d, int) and not isinstance(d, bool)]
    return tuple(sizes) if len(sizes) == len(value) else None


def ones(spec: TensorSpec, shape: tuple[int, ...]) -> np.ndarray:
    """Ones of that shape, or what the dtype of *spec* has in their place. Raises InputError for a negative size."""
    dtype = numpy_dtype(spec.dtype)
    if any(d < 0 for d in shape):
        raise InputError(f"prepare: a shape of input {spec.name} has a negative size: {shape}")
    if dtype.kind == "O":
        return np.full(shape, "", dtype)
    return np.asarray(np.zeros(shape, dtype) if dtype.kind in "iub" else np.ones(shape, dtype))
