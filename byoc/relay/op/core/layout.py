"""Layouts: the order of a tensor's axes as a word of letters, ``NCHW`` or ``HWIO``.

Every permutation of the letters is taken; blocked layouts (``NCHW16c``) belong to code generators, not to the graph.
Source: ``tvm.tir.Layout``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.types import Dim, TensorType, Type

SPATIAL = "DHW"


def spatial_letters(n: int) -> str:
    """The letters of *n* spatial axes: ``W``, ``HW`` or ``DHW``."""
    return SPATIAL[3 - n :]


def axes_of(layout: str, letters: str, what: str) -> tuple[int, ...]:
    """The position in *layout* of each of *letters*.

    Raises TypeInferenceError when *layout* is not an order of exactly these letters.
    """
    if sorted(layout) != sorted(letters):
        raise TypeInferenceError(f"the {what} layout must be an order of the letters of {letters}, got {layout!r}")
    return tuple(layout.index(letter) for letter in letters)


def data_letters(n: int) -> str:
    """The canonical layout of data with *n* spatial axes: ``NCHW``."""
    return "NC" + spatial_letters(n)


def kernel_letters(n: int) -> str:
    """The canonical layout of a convolution's kernel: ``OIHW``."""
    return "OI" + spatial_letters(n)


def tensor_of(ty: Type, ndim: int, what: str) -> TensorType:
    """*ty* as a tensor of *ndim* dimensions. Raises TypeInferenceError for anything else."""
    if not isinstance(ty, TensorType) or ty.ndim != ndim:
        raise TypeInferenceError(f"{what} must be a tensor of {ndim} dimensions, got {ty}")
    return ty


def arranged(dims: Sequence[Dim], letters: str, layout: str) -> tuple[Dim, ...]:
    """Sizes given in the order of *letters*, in the order of *layout*."""
    return tuple(dims[letters.index(letter)] for letter in layout)
