"""Numpy kernels of Fourier transforms."""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from byoc.runtime.core.errors import KernelError
from byoc.runtime.kernels.core.registry import kernel
from byoc.runtime.kernels.core.window import window_count

MAX_WEIGHTS = 1 << 24  # of a matrix of mel weights


@kernel("dft")
def dft(re_data: np.ndarray, im_data: np.ndarray, *, inverse: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """The transform of the last axis, by numpy: float64 in double precision, other floats in single precision."""
    values = np.empty(re_data.shape, np.complex128 if re_data.dtype == np.float64 else np.complex64)
    values.real, values.imag = re_data, im_data
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
    """Frames of *win_length* samples, weighted, and their transform in double precision.

    Raises KernelError for a signal that is shorter than a frame.
    """
    window_count(data.shape[-1], n_fft, hop_length, 1, (0, 0))
    last = data.shape[-1] - n_fft + win_length
    frames = sliding_window_view(data[..., :last], win_length, axis=-1)[..., ::hop_length, :]
    rows = n_fft // 2 + 1 if onesided else n_fft
    weighted = frames * window[:win_length].astype(np.float64)
    if rows <= win_length // 2 + 1:
        waves = np.fft.rfft(weighted)[..., :rows]
    else:  # the frequencies of a frame repeat after win_length
        waves = np.fft.fft(weighted)[..., np.arange(rows) % win_length]
    if normalized:
        waves /= np.sqrt(n_fft)
    turned = np.swapaxes(waves, -1, -2)
    return np.stack([turned.real, turned.imag], axis=-1).astype(data.dtype)


@kernel("mel_weight_matrix")
def mel_weight_matrix(
    num_mel_bins: np.ndarray,
    dft_length: np.ndarray,
    sample_rate: np.ndarray,
    lower_edge_hertz: np.ndarray,
    upper_edge_hertz: np.ndarray,
    *,
    dtype: str = "float32",
) -> np.ndarray:
    """Triangles over three neighbouring edges, which lie at equal distances in mel, of height 1 at the middle one.

    Raises KernelError for numbers of which none can be made.
    """
    bins, length, rate = (int(v.reshape(())) for v in (num_mel_bins, dft_length, sample_rate))
    first, last = (
        2595 * np.log1p(float(v.reshape(())) / 700) / np.log(10) for v in (lower_edge_hertz, upper_edge_hertz)
    )
    rows = length // 2 + 1
    if bins < 1 or length < 1 or rate < 1 or rows * bins > MAX_WEIGHTS or not first <= last < np.inf:
        raise KernelError(f"mel_weight_matrix: cannot make {rows} x {bins} weights at a sample rate of {rate}")
    mel = first + np.arange(bins + 2) * ((last - first) / (bins + 2))
    edges = ((length + 1) * (700 * np.expm1(mel / 2595 * np.log(10))) // rate).astype(int)
    if edges[:-1].max() >= rows:
        raise KernelError(f"mel_weight_matrix: the upper edge lies above half the sample rate of {rate}")
    out = np.zeros((rows, bins))
    for k, (low, centre, high) in enumerate(zip(edges, edges[1:], edges[2:], strict=False)):
        rise, fall = np.arange(low, centre + 1), np.arange(centre, min(high, rows))
        out[rise, k] = (rise - low) / (centre - low) if centre > low else 1.0
        out[fall, k] = (high - fall) / max(high - centre, 1)
    return out.astype(dtype)
