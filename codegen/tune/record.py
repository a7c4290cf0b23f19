"""What was found out about one kernel: every candidate with its times, and the choice that won."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from byoc.codegen.kernel.choice import Choice

MEASURED, DROPPED = "measured", "dropped"  # to the end; given up early, being clearly slower
CHECK_DIGITS = 16


@dataclass(frozen=True)
class Trial:
    """A candidate: the shortest and the median seconds of a call, and ``state``: how far it came, or why it failed."""

    choice: Choice
    shortest: float | None = None
    median: float | None = None
    state: str = MEASURED

    def to_json(self) -> dict[str, object]:
        return {"choice": self.choice.to_json(), "shortest": self.shortest, "median": self.median, "state": self.state}

    @staticmethod
    def from_json(data: Mapping[str, object]) -> Trial:
        """Raises KeyError, TypeError or ValueError for anything but what :meth:`to_json` gives."""
        shortest, median = data["shortest"], data["median"]
        if not isinstance(shortest, float | None) or not isinstance(median, float | None):
            raise TypeError(f"expected seconds, got {[shortest, median]}")
        return Trial(Choice.from_json(data["choice"]), shortest, median, str(data["state"]))


@dataclass(frozen=True)
class Record:
    """The ``choice`` for ``kernel`` where ``context`` (a digest) holds, found at ``level``.

    ``expected`` is what the cost model would have taken. ``complete`` is False where the time for tuning ended
    before this kernel's turn.
    """

    context: str
    kernel: str
    level: str
    choice: Choice
    expected: Choice
    trials: tuple[Trial, ...] = ()
    complete: bool = True

    @property
    def gain(self) -> float | None:
        """How many times faster the choice is than the model's; None where one of them was not measured."""
        times = {t.choice: t.shortest for t in self.trials}
        ours, models = times.get(self.choice), times.get(self.expected)
        return models / ours if ours and models else None

    def to_line(self) -> str:
        """One line of JSON, with a check of its content."""
        data: dict[str, object] = {
            "context": self.context,
            "kernel": self.kernel,
            "level": self.level,
            "choice": self.choice.to_json(),
            "expected": self.expected.to_json(),
            "trials": [t.to_json() for t in self.trials],
            "complete": self.complete,
        }
        return json.dumps({**data, "check": _check(data)})

    @staticmethod
    def from_line(line: str) -> Record:
        """Raises ValueError, KeyError or TypeError for a line that is not whole, or not one of ours."""
        data = json.loads(line)
        if not isinstance(data, dict) or data.pop("check") != _check(data):
            raise ValueError("the line is damaged")
        return Record(
            str(data["context"]),
            str(data["kernel"]),
            str(data["level"]),
            Choice.from_json(data["choice"]),
            Choice.from_json(data["expected"]),
            tuple(Trial.from_json(t) for t in data["trials"]),
            bool(data["complete"]),
        )


def _check(data: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:CHECK_DIGITS]
