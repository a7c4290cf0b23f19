"""What a plan says of one node: where it goes, what every target said and why, what else could have run it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from byoc.errors import PartitionError
from byoc.partition.calls import Decision, means, nearest


@dataclass(frozen=True)
class Explained:
    """The decisions that a name means; ``str()`` prints them. *stand_ins* says why the host computes a region."""

    name: str
    decisions: tuple[Decision, ...]
    symbols: tuple[str, ...]
    stand_ins: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return "\n".join(
            _decision_text(d, s, self.stand_ins.get(s)) for d, s in zip(self.decisions, self.symbols, strict=True)
        )


def explain(
    name: str, decisions: Sequence[Decision], symbols: Sequence[str], stand_ins: Mapping[str, str] | None = None
) -> Explained:
    """The decisions about the ONNX node, operator or composite *name*, which may hold ``*``; an operator also means the
    composites that hold it. *symbols* are their regions' names, *stand_ins* why the host computes one of them.

    Raises PartitionError with the nearest names where nothing is called so.
    """
    if not isinstance(name, str):
        raise PartitionError(f"an operator or ONNX node is named by its name, a text, got {name!r}")
    found = [(d, s) for d, s in zip(decisions, symbols, strict=True) if any(means(name, n) for n in d.names)]
    if not found:
        known = {n for d in decisions for n in d.names}
        raise PartitionError(
            f"no operator or ONNX node of the plan is called {name!r}; the nearest: {nearest(name, known)}"
        )
    return Explained(name, tuple(d for d, _ in found), tuple(s for _, s in found), stand_ins or {})


def _decision_text(decision: Decision, symbol: str, stand_in: str | None) -> str:
    node = f" ({', '.join(decision.nodes)})" if decision.nodes else ""
    region = f", region {symbol}" if symbol else ""
    cost = f", {seconds(decision.seconds)} ({decision.source})" if decision.seconds is not None else ""
    lines = [f"{decision.operator}{node}: {decision.target or 'on the host'}{region}{cost}"]
    if stand_in is not None:
        lines.append(f"  on the host instead, since {decision.target} {stand_in}")
    if decision.inside:
        lines.append(f"  a composite of {', '.join(decision.inside)}")
    for target, verdict in decision.verdicts:
        if verdict:
            lines.append(f"  {target}: accepted")
        lines += [f"  {target}: no [{reason.code}]: {reason}" for reason in verdict.reasons]
        lines += [f"  {target}: {reason} [{reason.code}]" for reason in verdict.matches]
    if not decision.verdicts:
        lines.append("  no other target was asked [no_target]")
    lines += [f"  {line}" for line in decision.detail.splitlines()]
    if decision.place:
        lines.append(f"  {decision.place}")
    for other in decision.alternatives:
        covers = f" as part of {other.name}" if other.name != decision.operator else ""
        lines.append(f"  instead: {other.target}{covers}, {seconds(other.seconds)}")
    return "\n".join(lines)


def seconds(value: float) -> str:
    """A time in the unit that suits it: ``12.3 us``, ``4.56 ms``, ``1.2 s``."""
    for scale, unit in ((1e-3, "us"), (1.0, "ms")):
        if value < scale:
            return f"{value / scale * 1e3:.4g} {unit}"
    return f"{value:.4g} s"
