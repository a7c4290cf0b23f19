"""The numpy kernel of ``image.dilation2d``."""

from __future__ import annotations

import numpy as np

from byoc.runtime.kernels.core.layout import from_letters, pad_pairs, per_axis, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import on_last_axes, positions


@kernel("image.dilation2d")
def dilation2d(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    strides: tuple[int, ...],
    padding: tuple[int, ...],
    dilations: tuple[int, ...],
    data_layout: str,
    kernel_layout: str,
    out_dtype: str = "",
) -> np.ndarray:
    """The greatest sum of each window and the structuring element, one tap after another."""
    x = to_letters(data, data_layout, "NCHW")
    w = weight.transpose([kernel_layout.index(letter) for letter in "IHW"])
    x = np.pad(x, [(0, 0), (0, 0), *pad_pairs(padding, 2)], constant_values=np.finfo(data.dtype).min)
    steps, spread = per_axis(strides[:2], 2), per_axis(dilations[:2], 2)
    outs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[1:], steps, spread, strict=True)]
    best: np.ndarray | None = None
    for at in positions(w.shape[1:]):
        where = [slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, spread, outs, steps, strict=True)]
        with np.errstate(over="ignore"):
            value = x[on_last_axes(where)] + w[on_last_axes(at)][:, None, None]
        best = value if best is None else np.maximum(best, value)
    return from_letters(np.asarray(best).astype(out_dtype or data.dtype), "NCHW", data_layout)
