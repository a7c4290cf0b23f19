"""The numpy kernel of ``image.dilation2d``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from byoc.runtime.kernels.core.attributes import KernelAttributes
from byoc.runtime.kernels.core.layout import from_letters, pad_pairs, per_axis, to_letters
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.nn.conv import on_last_axes, positions


@dataclass(frozen=True, kw_only=True)
class DilationAttributes(KernelAttributes):
    """Attributes of the dilation."""

    strides: tuple[int, ...]
    padding: tuple[int, ...]
    dilations: tuple[int, ...]
    data_layout: str
    kernel_layout: str
    out_dtype: str = ""


@kernel("image.dilation2d")
def dilation2d(
    data: np.ndarray,
    weight: np.ndarray,
    *,
    attrs: DilationAttributes,
) -> np.ndarray:
    """The greatest sum of each window and the structuring element, one tap after another."""
    x = to_letters(data, attrs.data_layout, "NCHW")
    w = weight.transpose([attrs.kernel_layout.index(letter) for letter in "IHW"])
    x = np.pad(x, [(0, 0), (0, 0), *pad_pairs(attrs.padding, 2)], constant_values=np.finfo(data.dtype).min)
    steps, spread = per_axis(attrs.strides[:2], 2), per_axis(attrs.dilations[:2], 2)
    outs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(x.shape[2:], w.shape[1:], steps, spread, strict=True)]
    best: np.ndarray | None = None
    for at in positions(w.shape[1:]):
        where = [slice(a * d, a * d + (n - 1) * s + 1, s) for a, d, n, s in zip(at, spread, outs, steps, strict=True)]
        with np.errstate(over="ignore"):
            value = x[on_last_axes(where)] + w[on_last_axes(at)][:, None, None]
        best = value if best is None else np.maximum(best, value)
    return from_letters(np.asarray(best).astype(attrs.out_dtype or data.dtype), "NCHW", attrs.data_layout)
