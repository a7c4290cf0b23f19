"""Whether arrays are the same but for rounding: element types, shapes, what is not finite, and how far numbers are off.

A float may be off by a part of the largest magnitude in its tensor, since sums are taken in another order by everybody;
integers, booleans and strings are equal, unless a tolerance for their type says by how much they may differ.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np

from byoc.errors import UserError
from byoc.runtime.core.ndarray import dtype_name

# of the largest magnitude of an output: what sums in another order may differ by without being doubted
QUICK = {"float64": 1e-12, "float32": 5e-6, "float16": 2e-3, "bfloat16": 1.6e-2}
# the same, for kernels of somebody else: functions that round otherwise than the C library's
TOLERANCE = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
EXACT_DB = 999.0  # the signal-to-noise ratio of what is equal


def is_float(dtype: np.dtype) -> bool:
    """True for the floating-point types, bfloat16 and those of 8 and 4 bits included."""
    return dtype.kind == "f" or "float" in dtype.name


def parse_tolerances(texts: tuple[str, ...] | list[str]) -> dict[str, float]:
    """``DTYPE=NUMBER`` texts as tolerances by dtype. Raises UserError for another text."""
    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            found[name] = math.nan
        if not name or not 0 <= found[name] < math.inf:
            raise UserError(f"--tolerance {text!r}: expected DTYPE=NUMBER, as float32=1e-4 or int8=1")
    return found


def difference(got: np.ndarray, want: np.ndarray, scale: float) -> str | None:
    """What is different, or None: a sentence. *scale* is the allowed part of the largest magnitude.

    Of integers it is the allowed difference itself.
    """
    if got.shape != want.shape:
        return f"shape {got.shape}, expected {want.shape}"
    if got.dtype != want.dtype:
        return f"element type {got.dtype}, expected {want.dtype}"
    if got.size == 0:
        return None
    if not is_float(got.dtype):
        return _other_values(got, want, scale)
    with np.errstate(invalid="ignore"):  # of memory that nobody wrote, too
        a, b = got.astype("float64"), want.astype("float64")
        finite = np.isfinite(b)
        special = ~finite & ~((np.isnan(a) & np.isnan(b)) | (a == b)) | finite & ~np.isfinite(a)
        if special.any():
            at = _first(special)
            return f"{int(special.sum())} of {got.size} are {a[at]} instead of {b[at]}, first at {at}"
        error = np.where(finite, np.abs(a - b), 0)
    span = float(np.abs(b[finite]).max(initial=0))
    allowed = scale * span + 2 * float(np.abs(np.nextafter(got.dtype.type(0), got.dtype.type(1))))
    if not (error > allowed).any():
        return None
    at = tuple(int(k) for k in np.unravel_index(int(error.argmax()), error.shape))
    return f"off by {error.max():.3g} of {span:.3g} at {at}: {a[at]:.9g}, expected {b[at]:.9g}"


def _other_values(got: np.ndarray, want: np.ndarray, allowed: float) -> str | None:
    wrong = got != want
    if allowed and got.dtype.kind in "iu":
        wrong = np.abs(got.astype("float64") - want.astype("float64")) > allowed
    if not wrong.any():
        return None
    at = _first(wrong)
    return f"{int(wrong.sum())} of {got.size} differ, at {at}: {got[at]}, expected {want[at]}"


def _first(mask: np.ndarray) -> tuple[int, ...]:
    return tuple(int(k) for k in np.argwhere(mask)[0])


@dataclass(frozen=True)
class Errors:
    """How far one tensor is from another: the largest absolute and relative error, and the signal-to-noise ratio.

    The ratio is ``10 log10(sum(want ** 2) / sum((got - want) ** 2))`` in dB, ``EXACT_DB`` where nothing differs. The
    mean and standard deviation of both are of their finite numbers. *unlike* says what cannot be compared by numbers:
    another shape or element type, or what is not finite in one alone.
    """

    max_abs: float
    max_rel: float
    snr_db: float
    mean: float
    std: float
    wanted_mean: float
    wanted_std: float
    unlike: str = ""

    def to_json(self) -> dict[str, object]:
        """The errors as values that ``json.dumps`` takes."""
        return asdict(self)


def errors(got: np.ndarray, want: np.ndarray) -> Errors:
    """How far *got* is from *want*; float types are compared whatever their widths, the rest as they are."""
    a, b = _numbers(got), _numbers(want)
    spread = (*_spread(a), *_spread(b))
    if got.shape != want.shape:
        return Errors(math.inf, math.inf, -EXACT_DB, *spread, f"shape {got.shape}, expected {want.shape}")
    if got.dtype != want.dtype and not (is_float(got.dtype) and is_float(want.dtype)):
        unlike = f"element type {dtype_name(got.dtype)}, expected {dtype_name(want.dtype)}"
        return Errors(math.inf, math.inf, -EXACT_DB, *spread, unlike)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    odd = ~same & ~(np.isfinite(a) & np.isfinite(b))
    if odd.any():
        at = _first(odd)
        return Errors(math.inf, math.inf, -EXACT_DB, *spread, f"{a[at]} at {at}, expected {b[at]}")
    with np.errstate(invalid="ignore"):
        far = np.where(same, 0.0, np.abs(a - b))
    largest = float(far.max(initial=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(far > 0, far / np.abs(b), 0.0)
    signal = float(np.square(np.where(np.isfinite(b), b, 0)).sum())
    return Errors(largest, float(relative.max(initial=0)), _decibel(signal, float(np.square(far).sum())), *spread)


def _decibel(signal: float, noise: float) -> float:
    if noise == 0:
        return EXACT_DB
    return max(-EXACT_DB, min(EXACT_DB, 10 * math.log10(signal / noise))) if signal > 0 else -EXACT_DB


def _numbers(value: np.ndarray) -> np.ndarray:
    """*value* as float64; a string is its length and a sum of its letters, so that equal ones are equal."""
    if value.dtype.kind in "OSU":
        texts = [str(v) for v in value.ravel()]
        return np.array([len(t) + sum(map(ord, t)) for t in texts], "float64").reshape(value.shape)
    return value.astype("float64")


def _spread(value: np.ndarray) -> tuple[float, float]:
    finite = value[np.isfinite(value)]
    return (float(finite.mean()), float(finite.std())) if finite.size else (0.0, 0.0)


def tolerances(given: Mapping[str, float] | None) -> Mapping[str, float]:
    """The tolerance of each dtype: *given*, else ``TOLERANCE``; dtypes in neither are equal."""
    return {**TOLERANCE, **(given or {})}
