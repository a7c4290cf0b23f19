"""From what a tensor's values were to the numbers of 8 bits that stand for them.

A range always holds 0, so that padding and ReLU are exact. ``minmax`` takes all that was seen; ``percentile`` leaves a
share of the values outside, the same on either side; ``mse`` takes the range whose rounding and saturation lose least
of the squares; ``entropy`` the one whose distribution over 256 steps is nearest to that of the values (by the
Kullback-Leibler divergence), and of few values, where that divergence is chance, all. Sources: Migacz, 8-bit Inference
with TensorRT (GTC 2017); Nagel et al., A White Paper on Neural Network Quantization (arXiv 2106.08295), section 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from byoc.errors import UserError
from byoc.relay.qnn.quantize.histogram import Histogram

STEPS = 255  # between the least and the greatest number of 8 bits
GREATEST_WEIGHT = 127
PERCENTILE = 99.99
FEWEST_FOR_ENTROPY = 1 << 14  # values: 64 for each step
ENTROPY_BINS = 2048
SHRINKINGS = np.linspace(1.0, 0.2, 81)  # of a range: what mse and entropy try


@dataclass(frozen=True)
class Affine:
    """``scale * (q - zero_point)`` for q of uint8: *scale* is a float32 above 0, *zero_point* one of 0 to 255."""

    scale: float
    zero_point: int

    @staticmethod
    def of(low: float, high: float) -> Affine:
        """For numbers from *low* to *high*, and 0.

        The scale is 1 where a step would be no normal float32: of one number, and of numbers of which none is.
        """
        low, high = min(low, 0.0), max(high, 0.0)
        scale = float(np.float32((high - low) / STEPS))
        if scale < np.finfo(np.float32).tiny:
            return Affine(1.0, 0)
        return Affine(scale, int(np.clip(np.rint(-low / scale), 0, STEPS)))

    def rounded(self, values: np.ndarray) -> np.ndarray:
        """*values* as they are after quantizing and dequantizing."""
        whole = np.clip(np.rint(values / self.scale) + self.zero_point, 0, STEPS)
        result: np.ndarray = (whole - self.zero_point) * self.scale
        return result


Method = Callable[[Histogram, float], Affine]


def _minmax(seen: Histogram, percentile: float) -> Affine:
    return Affine.of(seen.low, seen.high)


def _percentile(seen: Histogram, percentile: float) -> Affine:
    values, counts = seen.bins()
    outside = (1.0 - percentile / 100.0) / 2.0 * counts.sum()
    below, above = np.cumsum(counts), np.cumsum(counts[::-1])
    low = values[int(np.searchsorted(below, outside, side="right"))]
    high = values[::-1][int(np.searchsorted(above, outside, side="right"))]
    # the middle of the last bin that is kept is no reason to cut what lies beside it
    return Affine.of(max(seen.low, low - seen.width), min(seen.high, high + seen.width))


def _least(seen: Histogram, loss: Callable[[Affine], float]) -> Affine:
    """The range of least *loss*, shrunk from both ends in turn."""
    low, high = seen.low, seen.high
    high = min(((loss(Affine.of(low, high * float(s))), k, high * float(s)) for k, s in enumerate(SHRINKINGS)))[2]
    low = min(((loss(Affine.of(low * float(s), high)), k, low * float(s)) for k, s in enumerate(SHRINKINGS)))[2]
    return Affine.of(low, high)


def _mse(seen: Histogram, percentile: float) -> Affine:
    values, counts = seen.bins()
    return _least(seen, lambda a: float(counts @ np.square(values - a.rounded(values))))


def _entropy(seen: Histogram, percentile: float) -> Affine:
    if seen.count < FEWEST_FOR_ENTROPY:
        return _minmax(seen, percentile)
    values, counts = seen.bins()
    width = (seen.high - seen.low) / min(ENTROPY_BINS, seen.count / 32)
    bins = np.floor((values - seen.low) / max(width, np.finfo(np.float64).tiny))
    merged, place = np.unique(bins, return_inverse=True)
    share = np.bincount(place, counts) / counts.sum()
    values = np.clip(seen.low + (merged + 0.5) * width, seen.low, seen.high)
    return _least(seen, lambda a: _divergence(values, share, a))


def _divergence(values: np.ndarray, share: np.ndarray, affine: Affine) -> float:
    """The divergence of *values* over 256 steps, each as its bins on the average, from *values* kept to the range."""
    steps = (np.clip(np.rint(values / affine.scale) + affine.zero_point, 0, STEPS)).astype(np.int64)
    low, high = -affine.zero_point * affine.scale, (STEPS - affine.zero_point) * affine.scale
    inside = (values >= low) & (values <= high)
    whole = np.where(inside, share, 0.0)
    for outside, edge in ((values < low, 0), (values > high, -1)):  # what saturates lies on the last bin inside
        if outside.any() and inside.any():
            whole[np.flatnonzero(inside)[edge]] += share[outside].sum()
    filled = inside.astype(np.float64)
    width = np.bincount(steps, filled, STEPS + 1)
    mean = np.bincount(steps, np.where(inside, share, 0.0), STEPS + 1) / np.maximum(width, 1.0)
    spread = mean[steps] * filled
    spread = spread / max(spread.sum(), np.finfo(np.float64).tiny)
    some = (whole > 0.0) & (spread > 0.0)
    return float(np.sum(whole[some] * np.log(whole[some] / spread[some]))) if some.any() else float("inf")


METHODS: Mapping[str, Method] = {"minmax": _minmax, "percentile": _percentile, "mse": _mse, "entropy": _entropy}


def choose_range(seen: Histogram, method: str, percentile: float = PERCENTILE) -> Affine:
    """What stands for the values that *seen* counted, by *method* of ``METHODS``. Raises UserError for another one."""
    if method not in METHODS:
        raise UserError(f"the calibration method is one of {', '.join(METHODS)}, got {method!r}")
    return METHODS[method](seen, percentile)


def quantize_weights(values: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """*values* as int8 without a zero point, and a float32 scale for each position along *axis*; 1 where all are 0."""
    others = tuple(k for k in range(values.ndim) if k != axis % values.ndim)
    greatest = np.abs(values).max(others, initial=0.0)
    scales = np.where(greatest > 0.0, greatest / GREATEST_WEIGHT, 1.0).astype(np.float32)
    scales = np.where(scales > 0.0, scales, np.float32(1.0))  # denormals that vanish
    along = scales.reshape([-1 if k == axis % values.ndim else 1 for k in range(values.ndim)])
    whole = np.clip(np.rint(values / along), -GREATEST_WEIGHT, GREATEST_WEIGHT)
    return whole.astype(np.int8), scales
