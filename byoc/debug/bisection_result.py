"""What a bisection found: the parts, the first that leaves the reference, and the operator in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from byoc.debug.limits import errors_text
from byoc.testing.core.difference import Errors

MOST_NODES = 4  # that are named in a sentence


@dataclass(frozen=True)
class BisectionStep:
    """A part, or a whole model: the worst errors of its outputs; *problem* says how it leaves the reference.

    *is_hung* where it did not come to an end.
    """

    name: str
    target: str
    kind: str
    nodes: tuple[str, ...]
    errors: Errors | None
    problem: str = ""
    is_hung: bool = False

    @property
    def is_right(self) -> bool:
        """Whether it stays with the reference."""
        return not self.problem

    def __str__(self) -> str:
        more = ", ..." if len(self.nodes) > MOST_NODES else ""
        nodes = f" (nodes {', '.join(self.nodes[:MOST_NODES])}{more})" if self.nodes else ""
        right = errors_text(self.errors) if self.errors else "right"
        return f"{self.kind} {self.name} on {self.target}{nodes}: {self.problem or right}"


@dataclass(frozen=True)
class Bisection:
    """What :func:`bisect` found. ``str()`` is what the command prints; ``ok`` where nothing leaves the reference.

    *part* is the first region or group that does, *operator* the operator in it, or the last of the smallest group of
    operators that does together. Where each part is right alone and the model is not, *disturbed* is the first region
    that leaves the reference in a run of all of it. *text* and *inputs* are its case, *case* the file in which it is.
    *sample* is the number, from 0, of the setting of inputs that is reported, of as many as *samples*: the first that
    shows a mistake, else the one with the most noise.
    """

    model: str
    targets: tuple[str, ...]
    reference: str
    whole: BisectionStep
    steps: tuple[BisectionStep, ...]
    part: BisectionStep | None = None
    operator: BisectionStep | None = None
    disturbed: BisectionStep | None = None
    text: str = ""
    inputs: tuple[str, ...] = ()
    case: str = ""
    notes: tuple[str, ...] = ()
    sample: int = 0
    samples: int = 1

    @property
    def ok(self) -> bool:
        """Whether neither the model nor a part of it leaves the reference."""
        return self.whole.is_right and self.part is None

    def to_json(self) -> dict[str, object]:
        """What was found, as values that ``json.dumps`` takes."""
        return {**asdict(self), "ok": self.ok}

    def __str__(self) -> str:
        lines = [f"{self.model} on {', '.join(self.targets)}, against {self.reference}: {self._whole()}"]
        if self.samples > 1:
            lines.append(f"sample {self.sample + 1} of {self.samples}, {self._chosen()}")
        if self.part is not None:
            lines.append(f"first part that leaves it: {self.part}")
        if self.operator is not None:
            lines.append(f"operator: {self.operator}")
            lines += [f"  {line}" for line in self.text.strip().splitlines()]
            lines += [f"  {text}" for text in self.inputs]
        elif self.disturbed is not None:
            lines.append(
                f"each of its {len(self.steps)} parts is right alone; in the whole model the first that leaves it is "
                f"{self.disturbed}; does it share something with another region: an attribute of a class, a global, a "
                "buffer? Or do errors add up? byoc compare shows each value"
            )
        elif not self.whole.is_right and self.part is None:
            why = "errors add up, or parts disturb each other" if self.whole.errors else "parts disturb each other"
            lines.append(f"each of its {len(self.steps)} parts is right alone: {why}; byoc compare shows where")
        if self.case:
            lines.append(f"wrote {self.case}; byoc bisect --replay {self.case} -t {self._target()} runs it")
        return "\n".join([*lines, *(f"note: {n}" for n in self.notes)])

    def _chosen(self) -> str:
        return "the one with the most noise" if self.ok else "the first that leaves it"

    def _target(self) -> str:
        step = self.operator or self.part
        return step.target if step is not None else self.targets[0]

    def _whole(self) -> str:
        return self.whole.problem or (f"right, {errors_text(self.whole.errors)}" if self.whole.errors else "right")


def worst(found: Sequence[Errors]) -> Errors | None:
    """The errors of the tensor with the most noise."""
    return min(found, key=lambda e: (not e.unlike, e.snr_db), default=None)
