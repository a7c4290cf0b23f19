"""What the benchmark of plans found: cuts with their estimates and times, the bars, and their lines of text.

Noise is what a cut differs from itself: the cheapest one has two turns in each round, and three quarters of the rounds
differ by less. A cut is slower than another *by more than noise* where three quarters of the rounds say so, by more
than that.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.rounds import Timing

NONE = "-"
AGAIN = " again"  # the second turn of a cut, by which noise is known
SECONDS_TO_PLAN, SECONDS_FOR_MANY = 10.0, 30.0
PROVEN = 1e-6  # a gap below this is one of rounding


@dataclass(frozen=True)
class Way:
    """A way to choose a cut: by *policy* over *targets* (the host is always among them), called *name*."""

    name: str
    policy: str
    targets: tuple[str, ...]


@dataclass
class Found:
    """A cut by one way: *estimate* is its price by the costs, *total* and *bound* what the solver said, in seconds.

    *planning* are the seconds to plan; *cut* names equal cuts alike; *measured* is partly simulated
    where a cut has the NPU.
    """

    way: Way
    planning: float
    regions: int
    offloaded: int
    calls: int
    estimate: float
    cut: str = ""
    total: float | None = None
    bound: float | None = None
    gap: float | None = None
    method: str = ""
    measured: Timing | None = None
    difference: float | None = None
    failure: str = ""

    def to_json(self) -> dict[str, object]:
        plain = {k: v for k, v in vars(self).items() if k not in ("way", "measured")}
        return {
            "way": self.way.name,
            "policy": self.way.policy,
            "targets": list(self.way.targets),
            **plain,
            "measured": self.measured and self.measured.to_json(),
        }


@dataclass
class Group:
    """The ways over the same backends, of one model; the first is policy ``cost``."""

    model: str
    targets: tuple[str, ...]
    found: list[Found] = field(default_factory=list)
    noise: float | None = None

    def slower_than(self) -> dict[str, float] | None:
        """How many times the time of another way ``cost`` takes, for those that it is slower than by more than noise;
        None where it has no time.
        """
        cost = self.found[0]
        if cost.measured is None or self.noise is None:
            return None
        worse: dict[str, float] = {}
        for other in self.found[1:]:
            if other.measured is None or other.cut == cost.cut:
                continue
            ratios = [a / b for a, b in zip(cost.measured.turns, other.measured.turns, strict=True)]
            if lower_quartile(ratios) > 1 + self.noise:
                worse[other.way.name] = statistics.median(ratios)
        return worse

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "targets": list(self.targets),
            "noise": self.noise,
            "slower_than": self.slower_than(),
            "ways": [f.to_json() for f in self.found],
        }


def lower_quartile(values: Sequence[float]) -> float:
    """A quarter of *values* are below it; of one value it is that."""
    return statistics.quantiles(values, n=4, method="inclusive")[0] if len(values) > 1 else values[0]


def noise_of(once: Timing, again: Timing) -> float:
    """By how much of itself a cut differs between its turns of one round, in three quarters of the rounds at most."""
    apart = [abs(a / b - 1) for a, b in zip(once.turns, again.turns, strict=True)]
    return statistics.quantiles(apart, n=4, method="inclusive")[2] if len(apart) > 1 else apart[0]


def group_lines(group: Group) -> list[str]:
    """The table of a group, with what it says of the bars."""
    rows = [
        (
            "  way",
            "regions",
            "offloaded",
            "plan s",
            "estimate ms",
            "bound ms",
            "gap",
            "measured ms (quartiles)",
            "differs",
        ),
    ]
    rows += [_row(found, group) for found in group.found]
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [f"{group.model}: {', '.join(group.targets)} and the host"]
    lines += [
        "  ".join(c.ljust(w) if k == 0 else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    lines += [f"  {found.way.name}: {found.failure}" for found in group.found if found.failure]
    return [*lines, f"  {_verdict(group)}"]


def _row(found: Found, group: Group) -> tuple[str, ...]:
    same = next(f.way.name for f in group.found if f.cut == found.cut)
    gap = NONE if found.total is None else _share(found.gap)
    measured = f"the cut of {same}" if same != found.way.name else _milliseconds(found.measured)
    return (
        f"  {found.way.name}",
        str(found.regions),
        f"{found.offloaded} of {found.calls}",
        f"{found.planning:.2f}",
        f"{found.estimate * 1e3:.3f}",
        NONE if found.bound is None else f"{found.bound * 1e3:.3f}",
        gap,
        measured,
        NONE if found.difference is None else f"{found.difference:.0e}",
    )


def _share(gap: float | None) -> str:
    return "unknown" if gap is None else "0" if gap <= PROVEN else f"{gap:.2%}"


def _verdict(group: Group) -> str:
    worse = group.slower_than()
    if worse is None:
        return "policy cost has no measured time here"
    if not worse:
        return f"policy cost is above no other by more than noise ({group.noise:.1%})"
    others = ", ".join(f"{name} ({ratio:.2f} times its time)" for name, ratio in worse.items())
    return f"policy cost is SLOWER, by more than noise ({group.noise:.1%}), than {others}"


@dataclass(frozen=True)
class Bar:
    """What is asked for, whether it holds (None: it was not tried), and where it does not."""

    name: str
    held: bool | None
    exceptions: tuple[str, ...] = ()

    def __str__(self) -> str:
        said = "not tried" if self.held is None else "held" if self.held else "MISSED"
        return f"{said}: {self.name}{': ' if self.exceptions else ''}{', '.join(self.exceptions)}"


def zoo_bars(groups: Sequence[Group]) -> list[Bar]:
    """The bars over the zoo: proven in ten seconds, and never slower than the others by more than noise."""
    costs = [(g, f) for g in groups for f in g.found if f.way.policy == "cost"]
    slow = [
        f"{g.model} over {'+'.join(g.targets)} (gap {_share(f.gap)}, {f.planning:.1f} s)"
        for g, f in costs
        if f.gap is None or f.gap > PROVEN or f.planning >= SECONDS_TO_PLAN
    ]
    compared = [(g, worse) for g in groups if (worse := g.slower_than()) is not None]
    above = [f"{g.model} over {'+'.join(g.targets)} than {', '.join(worse)}" for g, worse in compared if worse]
    return [
        Bar("every plan by cost is proven best (gap 0) in under 10 s", not slow if costs else None, tuple(slow)),
        Bar(
            "no plan by cost takes longer than another way's by more than noise",
            not above if compared else None,
            tuple(above),
        ),
    ]


@dataclass(frozen=True)
class Large:
    """A family of graphs at one size: seconds to import and simplify, and to plan by each policy; then of ``cost``.

    *processor* are the seconds of the processor in *planning*, which others on the machine lengthen less.
    """

    family: str
    operators: int
    reading: float
    planning: Mapping[str, float]
    processor: Mapping[str, float]
    regions: Mapping[str, int]
    method: str
    gap: float | None

    def to_json(self) -> dict[str, object]:
        return {
            **vars(self),
            "planning": dict(self.planning),
            "processor": dict(self.processor),
            "regions": dict(self.regions),
        }

    def __str__(self) -> str:
        planned = "".join(
            f"{p} {s:7.2f} s ({self.processor[p]:.2f} of processor, {self.regions[p]} regions)  "
            for p, s in self.planning.items()
        )
        return (
            f"{self.family:<12}{self.operators:>9,}  reading {self.reading:7.2f} s  {planned}gap {_share(self.gap)} "
            f"({self.method})"
        )


def large_bar(found: Sequence[Large]) -> Bar:
    """The bar of 100,000 operators."""
    asked = [f for f in found if f.operators >= 100_000]
    missed = [
        f"{f.family} ({f.planning['cost']:.1f} s, gap {_share(f.gap)})"
        for f in asked
        if f.planning["cost"] >= SECONDS_FOR_MANY or f.gap is None
    ]
    return Bar(
        "100,000 operators are planned by cost in under 30 s, with a gap", not missed if asked else None, tuple(missed)
    )


def _milliseconds(found: Timing | None) -> str:
    return NONE if found is None else f"{found.median * 1e3:.3f} ({found.lower * 1e3:.3f}-{found.upper * 1e3:.3f})"
