"""What is said of arrays that do not broadcast, in the words of Relay's shape functions."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

import numpy as np

from byoc.runtime.core.errors import InputError


@contextlib.contextmanager
def broadcasting(name: str, arrays: Mapping[str, np.ndarray]) -> Iterator[None]:
    """Compute operator *name* on *arrays*. Raises InputError with their shapes where these do not broadcast."""
    try:
        yield
    except ValueError as error:
        try:
            np.broadcast_shapes(*(array.shape for array in arrays.values()))
        except ValueError:
            found = ", ".join(f"{argument}: {list(array.shape)}" for argument, array in arrays.items())
            raise InputError(f"{name}: Invalid broadcast shapes, these do not broadcast to one: {found}") from error
        raise
