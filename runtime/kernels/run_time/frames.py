"""The numpy kernel of windows whose length and step inputs hold."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel


@kernel("dyn.frames")
def frames(
    data: np.ndarray, window: np.ndarray, length: np.ndarray, step: np.ndarray, *, check: str = ""
) -> np.ndarray:
    """``T[batch, frames, length]``. Raises KernelError for a length or a step below 1, and for another window."""
    where = check or "frames"
    size, hop, samples = int(length.reshape(())), int(step.reshape(())), data.shape[-1]
    if not 0 < size <= samples or hop < 1:
        raise KernelError(f"{where}: frames of {size} at steps of {hop} cannot be taken from {samples} samples")
    if window.size not in (0, size):
        raise KernelError(f"{where}: the window must have the frame_length {size}, got {window.size} weights")
    found = sliding_window_view(data, size, axis=-1)[..., ::hop, :]
    return (found * window.astype(data.dtype) if window.size else found.copy()).astype(data.dtype)
