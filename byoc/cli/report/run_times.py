"""What ``byoc run`` measured: loading, the first run, and those that count, for each number of threads and device.

A run goes from arrays of the caller's to arrays of the caller's: copies to a device and back are in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from byoc.cli.flags.devices import named_devices
from byoc.errors import UserError

_COLUMNS = ("min", "median", "p90", "max", "stdev")


@dataclass(frozen=True)
class RunSetting:
    """The threads of a run, where they were said, and the OpenCL device; empty where none was named."""

    threads: int | None = None
    device: str = ""

    @property
    def words(self) -> str:
        """The setting behind a verb."""
        threads = "" if self.threads is None else f" with {self.threads} threads"
        return f"{threads} on {self.device}" if self.device else threads


def run_settings(threads: str | None, devices: str | None) -> list[RunSetting]:
    """Each device with each number of threads. Raises UserError for what is no number from 1, or no name."""
    counts: list[int | None] = [None]
    if threads is not None:
        words = [word.strip() for word in threads.split(",")]
        wrong = next((word for word in words if not (word.isascii() and word.isdecimal() and int(word) > 0)), None)
        if wrong is not None:
            raise UserError(f"--threads is a whole number from 1, or several as in 1,2, got {wrong!r}")
        counts = [int(word) for word in words]
    names = [""] if devices is None else named_devices([devices])
    return [RunSetting(count, name) for name in names for count in counts]


@dataclass(frozen=True)
class RunTimes:
    """Seconds of one setting.

    Attributes:
        setting: threads and device.
        opening: to load the artefact, or to compile the model.
        first: of the first run, which initialises what was not yet.
        warmup: how many runs after it do not count.
        seconds: of those that do.
        difference: the largest of an output from the first setting's.
    """

    setting: RunSetting
    opening: float
    first: float
    warmup: int
    seconds: tuple[float, ...]
    difference: float = 0.0

    def to_json(self) -> dict[str, object]:
        return {
            "threads": self.setting.threads,
            "device": self.setting.device,
            "first_ms": self.first * 1e3,
            "open_ms": self.opening * 1e3,
            **{f"{name}_ms": value for name, value in spread_ms(self.seconds).items()},
            "runs": len(self.seconds),
            "warmup": self.warmup,
            "difference": self.difference,
        }

    def text(self) -> str:
        """One line."""
        return f"first run {self.first * 1e3:.3f} ms, {_again(spread_ms(self.seconds), len(self.seconds), self.warmup)}"


def spread_ms(seconds: Sequence[float]) -> dict[str, float]:
    """Least, middle and greatest of *seconds*, the one that nine in ten do not exceed, and their deviation, in ms."""
    of: Mapping[str, Callable[[np.ndarray], object]] = {
        "min": np.min,
        "median": np.median,
        "max": np.max,
        "p90": _ninth,
        "stdev": np.std,
    }
    return {name: 1e3 * float(np.asarray(statistic(np.asarray(seconds)))) for name, statistic in of.items()}


def _ninth(seconds: np.ndarray) -> float:
    return float(np.quantile(seconds, 0.9, method="higher"))


def _again(spread: Mapping[str, float], repeat: int, warmup: int) -> str:
    if repeat == 1:
        return f"{'a later one' if warmup else 'the second'} {spread['median']:.3f} ms"
    rest = ", ".join(f"{name} {value:.3f}" for name, value in spread.items() if name != "median")
    after = f"it and {warmup} more" if warmup else "it"
    return f"median of {repeat} after {after} {spread['median']:.3f} ms ({rest})"


def table_of(times: Sequence[RunTimes]) -> str:
    """A row for each setting, milliseconds."""
    heads = ["threads", "device", "load", "first", *_COLUMNS, "differs"]
    rows = [heads]
    for t in times:
        spread = spread_ms(t.seconds)
        numbers = [1e3 * t.opening, 1e3 * t.first, *(spread[name] for name in _COLUMNS)]
        threads = "" if t.setting.threads is None else str(t.setting.threads)
        rows.append([threads, t.setting.device, *(f"{n:.3f}" for n in numbers), f"{t.difference:.1e}"])
    widths = [max(len(row[k]) for row in rows) for k in range(len(heads))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    return "\n".join([*lines, f"ms, {len(times[0].seconds)} runs after the first and {times[0].warmup} more"])


def largest_difference(expected: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> float:
    """The largest absolute difference of two runs' numbers; infinite where shapes differ, 0 for what is no number."""
    found = 0.0
    for want, got in zip(expected, outputs, strict=True):
        if want.shape != got.shape:
            return float("inf")
        if want.size and want.dtype.kind in "fiub":
            found = max(found, float(np.nanmax(np.abs(want.astype(np.float64) - got.astype(np.float64)), initial=0.0)))
    return found
