"""Sizes that are refused before memory is taken: a rank that numpy does not have, more elements than machines hold."""

from __future__ import annotations

import math
from collections.abc import Sequence

from byoc.errors import ImportModelError
from byoc.ir.dims import MAX_RANK
from byoc.ir.types import Dim, TensorType, Type

MAX_ELEMENTS = 1 << 48


def check_dims(dims: Sequence[Dim], where: str) -> None:
    """Raises ImportModelError, which says *where*, for a rank or a number of elements that nothing can hold."""
    if len(dims) > MAX_RANK:
        raise ImportModelError(f"{where} has {len(dims)} dimensions, supported are up to {MAX_RANK}")
    if math.prod(int(d) for d in dims if isinstance(d, int)) > MAX_ELEMENTS:
        raise ImportModelError(f"{where} has the shape {list(dims)}, which is more than {MAX_ELEMENTS:,} elements")


def check_type(ty: Type, where: str) -> None:
    """:func:`check_dims` of a tensor's type."""
    if isinstance(ty, TensorType):
        check_dims(ty.shape, where)
