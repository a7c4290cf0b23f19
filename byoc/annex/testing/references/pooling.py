"""Pooling in numpy, from the definition. Sources: ``tvm.topi.testing``'s ``poolnd_python``, ``adaptive_pool``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.annex.testing.references.padding import Ints, per_axis
from byoc.errors import UserError
from byoc.relay.op.core.arguments import Arguments, takes_fields_of

_TYPES = ("max", "avg")


@dataclass(eq=False, repr=False)
class PoolArguments(Arguments):
    """Arguments of ``poolnd_python``."""

    np_data: np.ndarray
    kernel: Sequence[int]
    strides: Sequence[int]
    dilation: Sequence[int]
    padding_before: Sequence[int]
    padding_after: Sequence[int]
    pool_type: str
    count_include_pad: bool = True
    ceil_mode: bool = False
    dtype: str = "float32"
    layout: str = "NCHW"


@takes_fields_of(PoolArguments)
def poolnd_python(given: PoolArguments) -> np.ndarray:
    """``data: [N, C, *S] -> [N, C, *P]``; a maximum or an average of each window. Raises UserError for another type.

    Its parameters are TVM's, the fields of :class:`PoolArguments`. With ``ceil_mode`` a window may begin inside the
    padded data and end outside; places outside are never counted, and the greatest of a window that sees only padding
    is the least value of the dtype. Where the last letter of ``layout`` is C, the channels of data and result are last.
    """
    pool_type = given.pool_type
    if pool_type not in _TYPES:
        raise UserError(f"pool_type is max or avg, got {pool_type!r}")
    last = given.layout.endswith("C")
    np_data = np.moveaxis(given.np_data, -1, 1) if last else given.np_data
    by_axis = (given.kernel, given.strides, given.dilation, given.padding_before, given.padding_after)
    places = [
        _windows(size, window, stride, apart, before, after, given.ceil_mode)
        for size, window, stride, apart, before, after in zip(np_data.shape[2:], *by_axis, strict=True)
    ]
    result = np.zeros((*np_data.shape[:2], *(len(rows) for rows in places)), given.dtype)
    for index in np.ndindex(*result.shape[2:]):
        rows = [places[axis][i] for axis, i in enumerate(index)]
        seen = np_data[(slice(None), slice(None), *np.ix_(*(inside for inside, _ in rows)))]
        axes = tuple(range(2, np_data.ndim))
        if pool_type == "max":
            value = seen.max(axis=axes, initial=_lowest(np_data.dtype))
        else:
            counted = np.prod([count if given.count_include_pad else len(inside) for inside, count in rows])
            value = seen.sum(axis=axes) / max(counted, 1)
        result[(slice(None), slice(None), *index)] = value
    return np.moveaxis(result, 1, -1) if last else result


def _lowest(dtype: np.dtype) -> float:
    return np.finfo(dtype).min if dtype.kind == "f" else np.iinfo(dtype).min


def _windows(
    size: int, kernel: int, stride: int, dilation: int, before: int, after: int, ceil_mode: bool
) -> list[tuple[list[int], int]]:
    """For each window along an axis: its places in the data, and how many are in the padded data."""
    span = size + before + after - (kernel - 1) * dilation - 1
    count = (-(-span // stride) if ceil_mode else span // stride) + 1
    rows = []
    for start in range(-before, -before + count * stride, stride):
        window = range(start, start + kernel * dilation, dilation)
        rows.append(([i for i in window if 0 <= i < size], sum(i < size + after for i in window)))
    return rows


def adaptive_pool(np_data: np.ndarray, out_size: Ints, pool_type: str, layout: str) -> np.ndarray:
    """Pooling to *out_size*: window i of an axis is from ``floor(i*S/O)`` up to ``ceil((i+1)*S/O)``.

    *layout* has the channels second (``NCHW``) or last (``NHWC``). Raises UserError for another type of pooling.
    """
    if pool_type not in _TYPES:
        raise UserError(f"pool_type is max or avg, got {pool_type!r}")
    data = np_data if layout.index("C") == 1 else np.moveaxis(np_data, -1, 1)
    sizes = per_axis(out_size, data.ndim - 2)
    result = np.zeros((*data.shape[:2], *sizes), data.dtype)
    for index in itertools.product(*map(range, sizes)):
        where = [
            slice(i * size // out, -(-(i + 1) * size // out))
            for i, size, out in zip(index, data.shape[2:], sizes, strict=True)
        ]
        seen = data[(slice(None), slice(None), *where)]
        axes = tuple(range(2, data.ndim))
        place: tuple[slice | int, ...] = (slice(None), slice(None), *index)
        result[place] = seen.max(axes) if pool_type == "max" else seen.mean(axes)
    return result if layout.index("C") == 1 else np.moveaxis(result, 1, -1)


def pool_grad_nchw(
    a_np: np.ndarray,
    out_grad_np: np.ndarray,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Sequence[int],
    pool_type: str,
    ceil_mode: bool,
    count_include_pad: bool = True,
) -> np.ndarray:
    """The gradient of pooling by its data: ``a: [N, C, H, W], grad: [N, C, P, Q] -> [N, C, H, W]``.

    *padding* is (top, left, bottom, right). Of equal maxima the first takes the gradient.
    """
    n = a_np.ndim - 2
    places = [
        _windows(size, window, stride, apart, before, after, ceil_mode)
        for size, window, stride, apart, before, after in zip(
            a_np.shape[2:], pool_size, strides, (1,) * n, padding[:n], padding[n:], strict=True
        )
    ]
    result = np.zeros_like(a_np)
    for index in np.ndindex(*out_grad_np.shape):
        rows = [places[axis][i] for axis, i in enumerate(index[2:])]
        where = (*index[:2], *np.ix_(*(inside for inside, _ in rows)))
        if pool_type == "max":
            first = np.unravel_index(np.argmax(a_np[where]), a_np[where].shape)
            result[(*index[:2], *(inside[i] for (inside, _), i in zip(rows, first, strict=True)))] += out_grad_np[index]
        else:
            counted = np.prod([count if count_include_pad else len(inside) for inside, count in rows])
            result[where] += out_grad_np[index] / counted
    return result
