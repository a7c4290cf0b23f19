"""Numpy kernels of the gradients of 2-d pools: each output's gradient is spread over its window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, lowest, pad_pairs, per_axis, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import on_last_axes, positions


@dataclass(frozen=True, kw_only=True)
class MaxPoolGradAttributes(KernelAttributes):
    """Attributes of the gradient of a maximum pool."""

    pool_size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...]
    layout: str
    out_layout: str = ""


class _Windows:
    """The padded data of a pool, and the part of it that each tap of the window sees over all outputs."""

    def __init__(self, sizes: tuple[int, ...], outs: tuple[int, ...], attrs: MaxPoolGradAttributes):
        self.kernel, self.steps = per_axis(attrs.pool_size, 2), per_axis(attrs.strides, 2)
        self.spread = per_axis(attrs.dilation, 2)
        self.pads, self.sizes, self.outs = pad_pairs(attrs.padding, 2), sizes, outs
        reaches = [d * (k - 1) + 1 for d, k in zip(self.spread, self.kernel, strict=True)]
        spans = zip(self.outs, self.steps, reaches, self.sizes, self.pads, strict=True)
        self.padded = tuple(max((n - 1) * s + reach, size + sum(pair)) for n, s, reach, size, pair in spans)

    def tap(self, at: tuple[int, ...]) -> tuple[slice, ...]:
        """Where tap *at* of every window lies in the padded data."""
        starts = [a * d for a, d in zip(at, self.spread, strict=True)]
        return tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, self.outs, self.steps, strict=True))

    def grown(self, data: np.ndarray, value: float) -> np.ndarray:
        """*data* [N, C, H, W] with its padding, and as far as the last window reaches."""
        rest = [(b, total - size - b) for (b, _), size, total in zip(self.pads, self.sizes, self.padded, strict=True)]
        return np.pad(data, [(0, 0), (0, 0), *rest], constant_values=value)

    def cropped(self, data: np.ndarray) -> np.ndarray:
        """What of *data* with padding is data."""
        return data[on_last_axes(slice(b, b + n) for (b, _), n in zip(self.pads, self.sizes, strict=True))]


@kernel("nn.max_pool2d_grad")
def max_pool2d_grad(
    out_grad: np.ndarray,
    data: np.ndarray,
    *,
    attrs: MaxPoolGradAttributes,
) -> np.ndarray:
    """The gradient goes to the first greatest element of each window."""
    grad, x = to_letters(out_grad, attrs.out_layout or attrs.layout, "NCHW"), to_letters(data, attrs.layout, "NCHW")
    windows = _Windows(x.shape[2:], grad.shape[2:], attrs)
    grown = windows.grown(x, lowest(x.dtype))
    seen = np.stack([grown[on_last_axes(windows.tap(at))] for at in positions(windows.kernel)])
    chosen = seen.argmax(0)
    out = np.zeros(grown.shape, x.dtype)
    for k, at in enumerate(positions(windows.kernel)):
        out[on_last_axes(windows.tap(at))] += np.where(chosen == k, grad, 0).astype(x.dtype)
    return from_letters(windows.cropped(out), "NCHW", attrs.layout)


@dataclass(frozen=True, kw_only=True)
class AvgPoolGradAttributes(MaxPoolGradAttributes):
    """Attributes of the gradient of an average pool."""

    count_include_pad: bool = False


@kernel("nn.avg_pool2d_grad")
def avg_pool2d_grad(
    out_grad: np.ndarray,
    data: np.ndarray,
    *,
    attrs: AvgPoolGradAttributes,
) -> np.ndarray:
    """The gradient is shared by the elements over which the mean was taken."""
    grad, x = to_letters(out_grad, attrs.out_layout or attrs.layout, "NCHW"), to_letters(data, attrs.layout, "NCHW")
    windows = _Windows(x.shape[2:], grad.shape[2:], attrs)
    inside = np.ones((1, 1, *windows.sizes))
    if attrs.count_include_pad:
        inside = np.ones((1, 1, *(n + sum(pair) for n, pair in zip(windows.sizes, windows.pads, strict=True))))
        extra = [(0, total - n) for n, total in zip(inside.shape[2:], windows.padded, strict=True)]
        counted = np.pad(inside, [(0, 0), (0, 0), *extra])
    else:
        counted = windows.grown(inside, 0)
    total: np.ndarray | int = sum(counted[on_last_axes(windows.tap(at))] for at in positions(windows.kernel))
    share = grad / np.maximum(total, 1)
    out = np.zeros((*x.shape[:2], *windows.padded), np.float64)
    for at in positions(windows.kernel):
        out[on_last_axes(windows.tap(at))] += share
    return from_letters(windows.cropped(out).astype(x.dtype), "NCHW", attrs.layout)
