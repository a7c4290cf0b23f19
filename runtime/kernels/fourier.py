"""Numpy kernels of Fourier transforms."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.core.window import window_count


@kernel("dft")
def dft(re_data: np.ndarray, im_data: np.ndarray, *, inverse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The transform of the last axis, by numpy in double precision."""
    values = re_data.astype(np.float64) + 1j * im_data.astype(np.float64)
    result = np.fft.ifft(values) if inverse else np.fft.fft(values)
    return result.real.astype(re_data.dtype), result.imag.astype(re_data.dtype)


@kernel("stft")
def stft(
    data: np.ndarray,
    window: np.ndarray,
    *,
    n_fft: int,
    hop_length: int,
    win_length: int,
    normalized: bool = False,
    onesided: bool = True,
) -> np.ndarray:
    """Frames of *win_length* samples, weighted and multiplied with the waves of each frequency.

    Raises KernelError for a signal that is shorter than a frame.
    """
    window_count(data.shape[-1], n_fft, hop_length, 1, (0, 0))
    last = data.shape[-1] - n_fft + win_length
    frames = sliding_window_view(data[..., :last], win_length, axis=-1)[..., ::hop_length, :]
    rows = n_fft // 2 + 1 if onesided else n_fft
    phase = 2 * np.pi * np.outer(np.arange(win_length), np.arange(rows)) / win_length
    weighted = frames * window[:win_length].astype(np.float64)
    scale = 1 / np.sqrt(n_fft) if normalized else 1.0
    parts = [weighted @ np.cos(phase) * scale, -(weighted @ np.sin(phase)) * scale]
    return np.stack([np.swapaxes(p, -1, -2) for p in parts], axis=-1).astype(data.dtype)
