"""What a plan says of one call: where it goes, what every target said, what it costs there and elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.contract.verdict import Verdict


@dataclass(frozen=True)
class Alternative:
    """Another way to run an operator, alone or as part of a composite: its target, its name and its seconds."""

    target: str
    name: str
    seconds: float


@dataclass(frozen=True)
class Decision:
    """Where one call goes (None is the host), and what each target that was asked said.

    *precision* is that of the product, the host's or a region's, where another than the model's was asked for, and
    *precision_reason* why it is not that one. Where regions were planned and not merged, *region* is the number of the
    call's own; where costs were asked, *seconds* is the call's by its cost model, *source* says where that number is
    from, and *alternatives* what else could have run it. Where places were scored, *chosen* is the place, *detail*
    every row of the score. Where the call is of a composite, *inside* names the operators of its body, each once.
    """

    operator: str
    nodes: tuple[str, ...]
    target: str | None
    verdicts: tuple[tuple[str, Verdict], ...] = ()
    precision: str = ""
    precision_reason: str = ""
    region: int | None = None
    seconds: float | None = None
    source: str = ""
    alternatives: tuple[Alternative, ...] = ()
    chosen: str = ""
    detail: str = ""
    inside: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which a user may mean it: the operator or composite, its ONNX nodes, the operators inside."""
        return (self.operator, *self.nodes, *self.inside)

    @property
    def codes(self) -> tuple[str, ...]:
        """Why the call is on the host, as codes of reasons, by target; empty where it is not."""
        if self.target is not None:
            return ()
        return tuple(f"{t}:{r.code}" for t, v in self.verdicts for r in v.why) or ("no_target",)

    @property
    def place(self) -> str:
        """``c/bf16``, ``c/f32: why``, ``opencl/fp16``: where it is computed; empty where no precision was asked for."""
        if not self.precision:
            return ""
        why = f": {self.precision_reason}" if self.precision_reason else ""
        return f"place {self.target or 'c'}/{self.precision}{why}"
