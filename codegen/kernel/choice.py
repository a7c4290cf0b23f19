"""What a schedule could be, and what is chosen of it, as data.

A **search space** names a kernel by a canonical text, and ranks the choices that are legal; the first is that of the
cost model. Whoever chooses (a database, a measurement) gives one of these, or nothing. Schedules depend on this module
alone, so that generating code needs no tuner.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from byoc.runtime.core.ndarray import NDArray
from byoc.te import Tensor

Value = int | bool | str


@dataclass(frozen=True)
class Choice:
    """A kind of schedule and its parameters, in the order of their names.

    >>> Choice.of("tile", rows=6, vectors=4).text()
    'tile rows=6 vectors=4'
    """

    kind: str
    parameters: tuple[tuple[str, Value], ...] = ()

    @staticmethod
    def of(kind: str, **parameters: Value) -> Choice:
        """The choice of *kind* with *parameters*."""
        return Choice(kind, tuple(sorted(parameters.items())))

    def __getitem__(self, name: str) -> Value:
        return dict(self.parameters)[name]

    def text(self) -> str:
        """For people."""
        return " ".join([self.kind, *(f"{name}={json.dumps(value)}" for name, value in self.parameters)])

    def to_json(self) -> dict[str, object]:
        return {"kind": self.kind, **dict(self.parameters)}

    @staticmethod
    def from_json(data: object) -> Choice:
        """Raises ValueError for anything but what :meth:`to_json` gives."""
        if not isinstance(data, dict) or not isinstance(data.get("kind"), str):
            raise ValueError(f"expected a choice with its kind, got {data!r}")
        parameters = {name: value for name, value in data.items() if name != "kind"}
        if not all(isinstance(v, Value) for v in parameters.values()):
            raise ValueError(f"a parameter of a choice is a number, a truth value or a text, got {data!r}")
        return Choice.of(data["kind"], **parameters)


@dataclass(frozen=True)
class SearchSpace:
    """The legal choices for *stage*.

    ``kernel`` says canonically what is computed: equal texts mean that equal choices take equal time. ``ranked`` are
    the legal choices with the time that the model expects of each, in any unit, the best first; never one twice.
    ``constants`` are those that the stage loads.
    """

    kernel: str
    ranked: tuple[tuple[float, Choice], ...]
    stage: Tensor
    constants: Mapping[Tensor, NDArray] = field(default_factory=dict)

    @property
    def expected(self) -> Choice:
        """The choice of the cost model."""
        return self.ranked[0][1]

    @property
    def cost(self) -> float:
        """What the model expects :attr:`expected` to take."""
        return self.ranked[0][0]

    def legal(self, choice: Choice) -> bool:
        """Whether the schedule can do that."""
        return any(choice == c for _, c in self.ranked)


class Choices(Protocol):
    """Whoever chooses from search spaces."""

    def choose(self, space: SearchSpace) -> Choice | None:
        """One of the space's choices, or None to leave it to the cost model."""
        ...


@dataclass(frozen=True)
class Fixed:
    """Answers that are given: by kernel. One that is not legal is not given."""

    answers: Mapping[str, Choice]

    def choose(self, space: SearchSpace) -> Choice | None:
        """The answer for the space's kernel."""
        answer = self.answers.get(space.kernel)
        return answer if answer is not None and space.legal(answer) else None


@dataclass
class SpaceCollector:
    """Chooses nothing and remembers the spaces, what there is to tune; ``counts`` says how often each came."""

    spaces: dict[str, SearchSpace] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def choose(self, space: SearchSpace) -> Choice | None:
        """None."""
        self.spaces.setdefault(space.kernel, space)
        self.counts[space.kernel] = self.counts.get(space.kernel, 0) + 1
        return None

    def in_order(self) -> Sequence[tuple[SearchSpace, float]]:
        """The spaces with the time that the model expects of all kernels that have them, the longest first."""
        total = [(s, s.cost * self.counts[name]) for name, s in self.spaces.items()]
        return sorted(total, key=lambda pair: (-pair[1], pair[0].kernel))
