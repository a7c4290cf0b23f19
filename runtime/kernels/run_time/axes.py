"""Numpy kernels of axes that an input holds: grouped as the columns of a matrix, put back, and taken out of a shape."""

from __future__ import annotations

import math

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel


def chosen_axes(axes: np.ndarray, rank: int, every: bool = False, check: str = "", unique: bool = False) -> list[int]:
    """The axes from the front, in order; none at all are all of them with *every*.

    Raises KernelError for one outside the rank and, where they must be *unique*, for one that is named twice.
    """
    given = [int(a) for a in axes.reshape(-1)]
    where = check or "an operator along axes"
    for axis in given:
        if not -rank <= axis < rank:
            among = f"give one from {-rank} to {rank - 1}" if rank else "there is none"
            raise KernelError(f"{where}: axis {axis} is outside {rank} dimensions; {among}")
    found = sorted({axis % rank for axis in given})
    if unique and len(found) != len(given):
        raise KernelError(f"{where}: axes {given} name a dimension twice; give each once")
    return list(range(rank)) if not given and every else found


def _order(rank: int, chosen: list[int]) -> list[int]:
    return [k for k in range(rank) if k not in chosen] + chosen


@kernel("dyn.group_axes")
def group_axes(data: np.ndarray, axes: np.ndarray, *, every: bool = False, check: str = "") -> np.ndarray:
    """``T[kept, chosen]``: the chosen axes behind the others, as a matrix."""
    chosen = chosen_axes(axes, data.ndim, every, check)
    columns = math.prod(data.shape[k] for k in chosen)
    rows = math.prod(d for k, d in enumerate(data.shape) if k not in chosen)
    return np.asarray(np.transpose(data, _order(data.ndim, chosen)), order="C").reshape(rows, columns)


@kernel("dyn.ungroup_axes")
def ungroup_axes(
    matrix: np.ndarray, like: np.ndarray, axes: np.ndarray, *, resized: bool = False, check: str = ""
) -> np.ndarray:
    """The columns of *matrix* as axes of a tensor of *like*'s shape, the one axis of another size where *resized*."""
    chosen = chosen_axes(axes, like.ndim, check=check)
    sizes = list(like.shape)
    if resized:
        sizes[chosen[0]] = matrix.shape[1]
    order = _order(like.ndim, chosen)
    return np.asarray(np.transpose(matrix.reshape([sizes[k] for k in order]), np.argsort(order)), order="C")


@kernel("dyn.axes_shape")
def axes_shape(
    data: np.ndarray, axes: np.ndarray, *, form: str = "ones", every: bool = False, check: str = ""
) -> np.ndarray:
    """The shape with 1 at the axes (``ones``), without them (``dropped``, ``squeezed``, ``alone``) or with them.

    Raises KernelError for an axis that is outside or, where that changes the rank, given twice, for one that is to be
    squeezed and has another size than 1, and with ``alone`` for one of size 1 that is not among them.
    """
    shape = list(data.shape)
    if form == "inserted":
        rank = len(shape) + axes.size
        chosen, sizes = chosen_axes(axes, rank, check=check, unique=True), iter(shape)
        return np.array([1 if k in chosen else next(sizes) for k in range(rank)], "int64")
    chosen = chosen_axes(axes, len(shape), every, check, unique=form != "ones")
    if form == "ones":
        return np.array([1 if k in chosen else d for k, d in enumerate(shape)], "int64")
    wide = [k for k in chosen if shape[k] != 1]
    where = check or "squeeze"
    more = [k for k, size in enumerate(shape) if size == 1 and k not in chosen]
    if form == "alone" and more:
        raise KernelError(
            f"{where}: axis {more[0]} has the size 1 in this run, which would change the rank; give axes, or compile "
            "for that size (shapes=)"
        )
    if form in ("squeezed", "alone") and wide:
        raise KernelError(f"{where}: axis {wide[0]} has the size {shape[wide[0]]}, and only one of size 1 is dropped")
    return np.array([d for k, d in enumerate(shape) if k not in chosen], "int64")
