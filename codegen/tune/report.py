"""What tuning did: which kernels were tried, which were known, and what was won over the cost model."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from byoc.codegen.tune.record import Record


MOST_FAILURES = 8  # that the text names


@dataclass
class TuningReport:
    """``tuned`` now, ``known`` from before, ``left`` to the cost model since they matter little.

    ``threads`` are the numbers of threads with which the host's candidates are timed, ``devices`` the names of devices
    by the context of their records, ``thresholds`` what was measured of each of them, ``notes`` what could not be.
    ``not_kept`` says why the database could not be written, where it could not.
    """

    level: str
    tuned: list[Record] = field(default_factory=list)
    known: list[Record] = field(default_factory=list)
    left: int = 0
    seconds: float = 0.0
    not_kept: str | None = None
    threads: set[int] = field(default_factory=set)
    devices: dict[str, str] = field(default_factory=dict)
    thresholds: dict[str, Mapping[str, int]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def place(self, context: str, device: str, threads: int) -> None:
        """Kernels of *context* are timed on *device*, or where that is empty on the host with so many *threads*."""
        if device:
            self.devices[context] = device
        else:
            self.threads.add(threads)

    def add_tuned(self, records: Sequence[Record], not_kept: str | None) -> None:
        """Records of what was tried now."""
        self.tuned += records
        self.not_kept = not_kept or self.not_kept

    def add_known(self, records: Sequence[Record]) -> None:
        """Records that were there."""
        self.known += records

    @property
    def trials(self) -> int:
        """The candidates that were tried now."""
        return sum(len(r.trials) for r in self.tuned)

    def to_json(self) -> dict[str, object]:
        return {
            "level": self.level,
            "threads": sorted(self.threads),
            "devices": sorted(set(self.devices.values())),
            "thresholds": {name: dict(values) for name, values in sorted(self.thresholds.items())},
            "tuned": [self._row(r) for r in self.tuned],
            "known": [self._row(r) for r in self.known],
            "left_to_the_cost_model": self.left,
            "trials": self.trials,
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
            "not_kept": self.not_kept,
        }

    def _row(self, record: Record) -> dict[str, object]:
        device = self.devices.get(record.context)
        return {
            "kernel": record.kernel,
            **({"device": device} if device else {}),
            "choice": record.choice.to_json(),
            "expected": record.expected.to_json(),
            "gain": record.gain,
            "complete": record.complete,
            "trials": [t.to_json() for t in record.trials],
        }

    def text(self) -> str:
        """For people: a line about all, and one for each kernel for which another choice than the model's won."""
        late = sum(not r.complete for r in self.tuned)
        parts = [
            f"{len(self.tuned) - late} kernels tuned with {self.trials} candidates in {self.seconds:.1f} s",
            f"{len(self.known)} known",
            f"{self.left} left to the cost model",
        ]
        parts += [f"{late} not reached in time"] if late else []
        where = [_threads(self.threads)] if self.threads or not self.devices else []
        where += sorted(set(self.devices.values()))
        lines = [f"tuning, level {self.level}, {' and '.join(where)}: {', '.join(parts)}"]
        lines += [f"  {name}: {_pairs(values)}" for name, values in sorted(self.thresholds.items())]
        records = [*self.tuned, *self.known]
        other = [r for r in records if r.gain is not None and r.choice != r.expected]
        timed = [r.gain for r in records if r.gain is not None]
        if timed:
            mean = f"{statistics.geometric_mean(timed):.3f}x on the mean"
            lines.append(f"another choice than the cost model's for {len(other)} of {len(timed)}; {mean}")
        for r in sorted(other, key=lambda r: -(r.gain or 0.0)):
            lines.append(f"  {r.gain:.2f}x  {r.choice.text()}, not {r.expected.text()}: {r.kernel}")
        failed = [(t, r.kernel) for r in self.tuned for t in r.trials if t.shortest is None]
        lines += [f"  {t.choice.text()} {t.state}: {kernel}" for t, kernel in failed[:MOST_FAILURES]]
        lines += [f"  and {len(failed) - MOST_FAILURES} more that failed"] if len(failed) > MOST_FAILURES else []
        lines += [f"  {note}" for note in self.notes]
        return "\n".join([*lines, f"not kept: {self.not_kept}"] if self.not_kept else lines)


def _threads(numbers: Collection[int]) -> str:
    return f"{' and '.join(map(str, sorted(numbers))) or 'no'} thread{'' if set(numbers) == {1} else 's'}"


def _pairs(values: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())
