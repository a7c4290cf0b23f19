"""How often a tensor of floats takes which values, counted over samples as they come.

Invariant: bin ``k`` of ``2 * HALF`` holds the values of ``[(k - HALF) * width, (k - HALF + 1) * width)``; ``width`` is
a power of two, which doubles where a value lies outside, so that counts merge exactly.
"""

from __future__ import annotations

import numpy as np

HALF = 4096  # bins on each side of 0: sixteen for each of 256 steps


class Histogram:
    """Counts of the finite values of one tensor. ``low`` and ``high`` are exact; ``is_finite`` says whether all were.

    ``count`` is how many values were seen.
    """

    def __init__(self) -> None:
        self.low, self.high = 0.0, 0.0
        self.count = 0
        self.is_finite = True
        self.width = 0.0
        self._counts = np.zeros(2 * HALF, np.int64)
        self._zeros = 0

    def update(self, values: np.ndarray) -> None:
        """Count *values*: float32 of any shape."""
        flat = np.asarray(values, np.float32).reshape(-1)
        finite = flat[np.isfinite(flat)]
        self.is_finite = self.is_finite and finite.size == flat.size
        self.count += finite.size
        if not finite.size:
            return
        low, high = float(finite.min()), float(finite.max())
        self.low, self.high = min(self.low, low), max(self.high, high)
        if low == high == 0.0:
            self._zeros += finite.size
            return
        self._widen(max(-low, high))
        places = np.floor(finite * np.float32(1.0 / self.width)).astype(np.int64)
        self._counts += np.bincount(np.clip(places + HALF, 0, 2 * HALF - 1), minlength=2 * HALF)

    def _widen(self, greatest: float) -> None:
        """Let the bins hold *greatest*, which is above 0."""
        if self.width == 0.0:
            self.width = max(2.0 ** np.ceil(np.log2(greatest / HALF)), 2.0**-120)
        while self.width * HALF <= greatest:
            merged = np.zeros_like(self._counts)
            merged[HALF // 2 : HALF + HALF // 2] = self._counts.reshape(-1, 2).sum(1)
            self._counts, self.width = merged, self.width * 2

    def bins(self) -> tuple[np.ndarray, np.ndarray]:
        """The values in the middles of the bins that hold any, in order, and how many: ``f64[N]``, ``i64[N]``.

        A bin at the end of the range stands for its part of it; values that were all 0 are one bin.
        """
        if self.width == 0.0:
            return np.zeros(1), np.array([max(self._zeros, 1)], np.int64)
        counts = self._counts.copy()
        counts[HALF] += self._zeros
        kept = np.flatnonzero(counts)
        middles = (kept - HALF + 0.5) * self.width
        return np.clip(middles, self.low, self.high), counts[kept]
