"""Pooling in numpy, from the definition. Sources: ``tvm.topi.testing``'s ``poolnd_python``, ``adaptive_pool``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from byoc.annex.testing.references.padding import Ints, per_axis
from byoc.errors import UserError

_TYPES = ("max", "avg")


def poolnd_python(
    np_data: np.ndarray,
    kernel: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding_before: Sequence[int],
    padding_after: Sequence[int],
    pool_type: str,
    count_include_pad: bool = True,
    ceil_mode: bool = False,
    dtype: str = "float32",
    layout: str = "NCHW",
) -> np.ndarray:
    """``data: [N, C, *S] -> [N, C, *P]``; a maximum or an average of each window. Raises UserError for another type.

    With *ceil_mode* a window may begin inside the padded data and end outside; places outside are never counted, and
    the greatest of a window that sees only padding is the least value of the dtype. Where the last letter of *layout*
    is C, the channels of data and result are last.
    """
    if pool_type not in _TYPES:
        raise UserError(f"pool_type is max or avg, got {pool_type!r}")
    last = layout.endswith("C")
    np_data = np.moveaxis(np_data, -1, 1) if last else np_data
    places = [
        _windows(size, window, stride, apart, before, after, ceil_mode)
        for size, window, stride, apart, before, after in zip(
            np_data.shape[2:], kernel, strides, dilation, padding_before, padding_after, strict=True
        )
    ]
    result = np.zeros((*np_data.shape[:2], *(len(rows) for rows in places)), dtype)
    for index in np.ndindex(*result.shape[2:]):
        rows = [places[axis][i] for axis, i in enumerate(index)]
        seen = np_data[(slice(None), slice(None), *np.ix_(*(inside for inside, _ in rows)))]
        axes = tuple(range(2, np_data.ndim))
        if pool_type == "max":
            value = seen.max(axis=axes, initial=_lowest(np_data.dtype))
        else:
            counted = np.prod([count if count_include_pad else len(inside) for inside, count in rows])
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
