"""Numpy kernels that reshape, permute, join and repeat."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.attributes import resolve_newshape
from byoc.runtime.kernels.core.registry import F, kernel

VIEWS: list[str] = []
"""The operators of one tensor that give its elements in their order under another shape, for whoever has no compiler to
ask: a result's shape is all that one needs to know. They are those with the trait ``is_view``.
"""


def view_kernel(name: str) -> Callable[[F], F]:
    """Register the numpy kernel of an operator that is one of :data:`VIEWS`."""
    VIEWS.append(name)
    return kernel(name)


@view_kernel("reshape")
def reshape(data: np.ndarray, *, newshape: tuple[int, ...], allowzero: bool = False) -> np.ndarray:
    """The elements in another shape; see ``newshape`` for the special numbers."""
    return np.reshape(data, resolve_newshape(data.shape, newshape, allowzero))


@kernel("vm.reshape_tensor")
def reshape_tensor(data: np.ndarray, shape: np.ndarray) -> np.ndarray:
    """The elements in a shape of known sizes that an input holds."""
    return np.reshape(data, [int(n) for n in shape])


@view_kernel("contrib_reverse_reshape")
def reverse_reshape(data: np.ndarray, *, newshape: tuple[int, ...], allowzero: bool = False) -> np.ndarray:
    """The elements in another shape, whose special numbers are read from the right."""
    return np.reshape(data, resolve_newshape(data.shape[::-1], newshape[::-1], allowzero)[::-1])


@kernel("dyn.reshape")
def dyn_reshape(
    data: np.ndarray, newshape: np.ndarray, *, allowzero: bool = False, known: tuple[str, ...] = ()
) -> np.ndarray:
    """The elements in a shape that an input holds."""
    return np.reshape(data, resolve_newshape(data.shape, [int(n) for n in newshape], allowzero))


@kernel("match_shape")
def match_shape(data: np.ndarray, *, shape: tuple[str, ...]) -> np.ndarray:
    """The array itself; *shape* has a number, ``?name`` or ``?`` for each dimension. Raises KernelError for another."""
    sizes: dict[str, int] = {}
    fits = len(shape) == data.ndim
    for wanted, size in zip(shape, data.shape, strict=False):
        known = size if wanted == "?" else sizes.setdefault(wanted, size) if wanted[0] == "?" else int(wanted)
        fits = fits and known == size
    if not fits:
        raise KernelError(f"match_shape: expected ({', '.join(shape)}), got {data.shape}")
    return data.copy()


@kernel("reshape_like")
def reshape_like(
    data: np.ndarray,
    shape_like: np.ndarray,
    *,
    lhs_begin: int = 0,
    lhs_end: int | None = None,
    rhs_begin: int = 0,
    rhs_end: int | None = None,
) -> np.ndarray:
    """The elements with some dimensions replaced by some of another array."""
    start, stop, _ = slice(lhs_begin, lhs_end).indices(data.ndim)
    middle = shape_like.shape[rhs_begin:rhs_end]
    return np.reshape(data, (*data.shape[:start], *middle, *data.shape[max(stop, start) :]))


@kernel("transpose")
def transpose(data: np.ndarray, *, axes: tuple[int, ...] | None = None) -> np.ndarray:
    """The axes in another order."""
    return np.transpose(data, axes or None).copy()


@view_kernel("expand_dims")
def expand_dims(data: np.ndarray, *, axis: int, num_newaxis: int = 1) -> np.ndarray:
    """Dimensions of 1 put before an axis."""
    place = axis % (data.ndim + 1)
    return np.reshape(data, (*data.shape[:place], *(1,) * num_newaxis, *data.shape[place:]))


@kernel("dyn.expand_dims")
def dyn_expand_dims(data: np.ndarray, axis: np.ndarray, *, num_newaxis: int = 1) -> np.ndarray:
    """Dimensions of 1 put before an axis that an input holds."""
    return expand_dims(data, axis=int(axis.reshape(())), num_newaxis=num_newaxis)


@view_kernel("squeeze")
def squeeze(data: np.ndarray, *, axis: tuple[int, ...] | None = None) -> np.ndarray:
    """Dimensions of 1 dropped."""
    return np.squeeze(data, axis if axis is None else tuple(axis))


@kernel("dyn.squeeze")
def dyn_squeeze(data: np.ndarray, axis: np.ndarray) -> np.ndarray:
    """Dimensions of 1 dropped at axes that an input holds."""
    return np.squeeze(data, tuple(int(a) for a in axis.reshape(-1)))


@view_kernel("nn.batch_flatten")
def batch_flatten(data: np.ndarray) -> np.ndarray:
    """[N, ...] -> [N, product of the rest]."""
    return data.reshape(data.shape[0], int(np.prod(data.shape[1:])))


@kernel("reverse")
def reverse(data: np.ndarray, *, axis: int) -> np.ndarray:
    """The elements in reverse order along an axis."""
    return np.flip(data, axis).copy()


@kernel("concatenate")
def concatenate(data: list[np.ndarray], *, axis: int = 0) -> np.ndarray:
    """Arrays one after another along an axis; of one that has nothing along it the other sizes do not matter."""
    return np.concatenate([part for part in data if part.shape[axis]] or data[:1], axis)


@kernel("stack")
def stack(data: list[np.ndarray], *, axis: int = 0) -> np.ndarray:
    """Arrays one after another along a new axis."""
    return np.stack(data, axis)


@kernel("split")
def split(
    data: np.ndarray, *, indices_or_sections: tuple[int, ...], equal: bool = False, axis: int = 0
) -> tuple[np.ndarray, ...]:
    """The array cut along an axis: into as many *equal* sections as one number says, or before each index."""
    numbers = (indices_or_sections,) if isinstance(indices_or_sections, int) else tuple(indices_or_sections)
    parts = np.split(data, numbers[0] if equal else list(numbers), axis)
    return tuple(p.copy() for p in parts)


@kernel("tile")
def tile(data: np.ndarray, *, reps: tuple[int, ...]) -> np.ndarray:
    """The array repeated as a whole."""
    return np.tile(data, reps)


@kernel("dyn.tile")
def dyn_tile(data: np.ndarray, reps: np.ndarray) -> np.ndarray:
    """The array repeated as a whole, as often as an input says."""
    return np.tile(data, [int(r) for r in reps])


@kernel("repeat")
def repeat(data: np.ndarray, *, repeats: int, axis: int) -> np.ndarray:
    """Each element repeated along an axis."""
    return np.repeat(data, repeats, axis)
