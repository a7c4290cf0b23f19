"""Numpy kernels of reductions over axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.runtime.kernels.binary import truncated_divide
from byoc.runtime.kernels.core.registry import kernel


def reduced_axes(ndim: int, axis: tuple[int, ...] | None, exclude: bool) -> tuple[int, ...]:
    """The axes that are reduced over, counted from the front, in order."""
    if axis is None:
        return tuple(range(ndim))
    chosen = {a % ndim for a in axis}
    return tuple(k for k in range(ndim) if (k in chosen) != exclude)


def _mean(data: np.ndarray, axis: tuple[int, ...], keepdims: bool) -> np.ndarray:
    if data.dtype.kind == "f":
        result: np.ndarray = np.mean(data, axis=axis, keepdims=keepdims)
        return result
    total = np.sum(data, axis=axis, keepdims=keepdims, dtype=data.dtype)
    count = int(np.prod([data.shape[k] for k in axis], dtype=np.int64))
    return truncated_divide(np.asarray(total), np.asarray(count, data.dtype))


def _neutral(dtype: np.dtype, of_minimum: bool) -> float | int:
    """What a minimum (else a maximum) gives over nothing, as generated code does: the far end of the type."""
    if dtype.kind not in "iub":
        return np.inf if of_minimum else -np.inf
    if dtype.kind == "b":
        return of_minimum
    return np.iinfo(dtype).max if of_minimum else np.iinfo(dtype).min


def extremum(data: np.ndarray, axis: int | tuple[int, ...], keepdims: bool, of_minimum: bool = False) -> np.ndarray:
    """The greatest (or least) elements along *axis*, also where there is none; a NaN wins."""
    fold = np.min if of_minimum else np.max
    if data.size:
        result: np.ndarray = fold(data, axis=axis, keepdims=keepdims)
        return result
    result = fold(data, axis=axis, keepdims=keepdims, initial=_neutral(data.dtype, of_minimum))
    return result


REDUCTIONS: dict[str, Callable[..., np.ndarray | np.generic]] = {
    "sum": lambda x, a, k: np.sum(x, axis=a, keepdims=k, dtype=x.dtype),
    "prod": lambda x, a, k: np.prod(x, axis=a, keepdims=k, dtype=x.dtype),
    "max": extremum,
    "min": lambda x, a, k: extremum(x, a, k, of_minimum=True),
    "all": lambda x, a, k: np.all(x, axis=a, keepdims=k),
    "any": lambda x, a, k: np.any(x, axis=a, keepdims=k),
    "mean": _mean,
}


def _kernel_of(function: Callable[..., np.ndarray | np.generic]) -> Callable[..., np.ndarray]:
    def run(
        data: np.ndarray, *, axis: tuple[int, ...] | None = None, keepdims: bool = False, exclude: bool = False
    ) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(function(data, reduced_axes(data.ndim, axis, exclude), keepdims)).astype(data.dtype)

    return run


for _name, _function in REDUCTIONS.items():
    kernel(_name)(_kernel_of(_function))


@kernel("variance")
def variance(
    data: np.ndarray,
    mean: np.ndarray,
    *,
    axis: tuple[int, ...] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
) -> np.ndarray:
    """The sum of squared distances from *mean* by the count, or by the count less one; of float16 in float32."""
    axes = reduced_axes(data.ndim, axis, exclude)
    count = int(np.prod([data.shape[k] for k in axes], dtype=np.int64)) - int(unbiased)
    work = np.promote_types(data.dtype, np.float32) if data.dtype.kind == "f" else data.dtype
    with np.errstate(all="ignore"):
        squares = np.square(data.astype(work) - mean)
        total = np.asarray(np.sum(squares, axis=axes, keepdims=keepdims, dtype=work))
        return truncated_divide(total, np.asarray(count, work)).astype(data.dtype)


def _arg_kernel(find: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    def run(
        data: np.ndarray,
        *,
        axis: tuple[int, ...] | None = None,
        keepdims: bool = False,
        exclude: bool = False,
        select_last_index: bool = False,
    ) -> np.ndarray:
        axes = reduced_axes(data.ndim, axis, exclude)
        kept = [k for k in range(data.ndim) if k not in axes]
        rows = np.transpose(data, [*kept, *axes])
        count = int(np.prod([data.shape[k] for k in axes], dtype=np.int64))
        rows = rows.reshape([data.shape[k] for k in kept] + [count])
        if not count:  # the position that generated code gives where there is none
            left = [1 if k in axes else data.shape[k] for k in (range(data.ndim) if keepdims else kept)]
            return np.full(left, -1 if select_last_index else 0, "int32")
        found = find(rows[..., ::-1], axis=-1) if select_last_index else find(rows, axis=-1)
        found = rows.shape[-1] - 1 - found if select_last_index else found
        shape = [1 if k in axes else data.shape[k] for k in range(data.ndim)] if keepdims else np.shape(found)
        return np.asarray(found).reshape(shape).astype("int32")

    return run


kernel("argmax")(_arg_kernel(np.argmax))
kernel("argmin")(_arg_kernel(np.argmin))
