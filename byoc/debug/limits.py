"""When a tensor leaves its reference: by its largest error, or by the noise in it.

Floats of a model are sums of many terms, so that more is allowed than of one kernel on a sample; what is quantized is
judged by its noise, since a rounding may move any number by one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from byoc.testing.core.difference import Errors, difference, errors, is_float

# of the largest magnitude of a tensor
PARTS = {"float64": 1e-7, "float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}
INTEGER_DB = 30.0


@dataclass(frozen=True)
class ErrorLimits:
    """How far a tensor may be from its reference: by dtype, or the least signal-to-noise ratio in dB for all."""

    tolerance: Mapping[str, float] = field(default_factory=dict)
    snr: float | None = None

    @staticmethod
    def of(tolerance: Mapping[str, float] | None, snr: float | None, precision: str = "f32") -> ErrorLimits:
        """Those that a user asks for; of products in float16 a float32 may be off as a float16 may."""
        rounded = {"float32": PARTS["float16"]} if precision == "fp16" else {}
        return ErrorLimits({**rounded, **(tolerance or {})}, snr)

    def leaves(self, got: np.ndarray, want: np.ndarray) -> str | None:
        """How *got* leaves *want*, in a sentence; None where it does not."""
        found = errors(got, want)
        if found.unlike:
            return found.unlike
        dtype = str(want.dtype)
        by_noise = self.snr is not None or (want.dtype.kind in "iu" and dtype not in self.tolerance)
        if by_noise:
            least = INTEGER_DB if self.snr is None else self.snr
            return None if found.snr_db >= least else f"{errors_text(found)}, less than {least:g} dB"
        if is_float(want.dtype):
            want = want.astype(got.dtype) if is_float(got.dtype) else want
        return difference(got, want, self.tolerance.get(dtype, PARTS.get(dtype, 0.0)))


def errors_text(found: Errors) -> str:
    """Errors as words."""
    return found.unlike or f"{found.snr_db:.1f} dB over the noise, largest error {found.max_abs:.3g}"
