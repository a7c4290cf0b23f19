"""What the benchmark found: cells of model and threads, the ratios drawn from them, and their lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks.engines import OURS
from benchmarks.rounds import Timing, geometric_mean

NONE = "-"


@dataclass
class Cell:
    """One model on so many threads in one precision: timings by engine, or why an engine gave none.

    ``differences`` are those of :func:`engines.relative_difference` to ONNX Runtime's f32 outputs; ``peak`` is in
    multiply-adds a second on these threads, None where it was not measured.
    """

    model: str
    threads: int
    precision: str
    multiply_adds: int
    peak: float | None
    timings: dict[str, Timing] = field(default_factory=dict)
    differences: dict[str, float] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)

    def ratio(self, peer: str) -> float | None:
        """How many times as fast as *peer* we are; None where one of the two has no figure."""
        ours, theirs = self.timings.get(OURS), self.timings.get(peer)
        return ours.times_as_fast(theirs) if ours and theirs else None

    @property
    def ratio_to_better(self) -> float | None:
        """The ratio to the faster peer, None without one."""
        ratios = [r for peer in self.timings if peer != OURS and (r := self.ratio(peer)) is not None]
        return min(ratios, default=None)

    @property
    def seconds_at_peak(self) -> float | None:
        """What the multiply-adds alone take at the peak: less time needs fewer of them (Winograd), or narrower ones."""
        return self.multiply_adds / self.peak if self.peak else None

    @property
    def ratio_at_peak(self) -> float | None:
        """The ratio to the faster peer that :attr:`seconds_at_peak` would be."""
        peers = [found.median for name, found in self.timings.items() if name != OURS]
        return min(peers) / self.seconds_at_peak if peers and self.seconds_at_peak else None

    def share_of_peak(self, engine: str) -> float | None:
        """Multiply-adds a second of *engine*, as a part of the peak."""
        found = self.timings.get(engine)
        return self.multiply_adds / found.median / self.peak if found and self.peak else None

    def to_json(self) -> dict[str, object]:
        return {
            "model": self.model,
            "threads": self.threads,
            "precision": self.precision,
            "multiply_adds": self.multiply_adds,
            "peak_multiply_adds_per_second": self.peak,
            "engines": {
                name: {
                    **found.to_json(),
                    "share_of_peak": self.share_of_peak(name),
                    "difference": self.differences.get(name),
                }
                for name, found in self.timings.items()
            },
            "failures": self.failures,
            "ratios": {peer: self.ratio(peer) for peer in self.timings if peer != OURS},
            "ratio_to_better": self.ratio_to_better,
            "seconds_at_peak": self.seconds_at_peak,
            "ratio_at_peak": self.ratio_at_peak,
        }


def header(engines: Sequence[str]) -> str:
    """The line above :func:`line`'s."""
    columns = "".join(f"{name + ' ms (quartiles)':>31}" for name in engines)
    ratios = "".join(f"{'/' + name[:4]:>7}" for name in engines if name != OURS)
    shares = "".join(f"{name[:4]:>6}" for name in engines)
    limit = f"{'at it ms':>10}{'/best':>7}{'GFLOP/s':>9}{'differs':>9}"
    return f"{'model':<16}{'thr':>4}{columns}{ratios}{'/best':>7}  of peak:{shares}{limit}"


def line(cell: Cell, engines: Sequence[str]) -> str:
    """One cell: milliseconds with quartiles, our ratio to each peer and to the better, shares of the peak, what the
    multiply-adds take at the peak with that ratio, the peak, and how much our outputs differ.
    """
    columns = "".join(f"{_milliseconds(cell.timings.get(name)):>31}" for name in engines)
    ratios = "".join(f"{_number(cell.ratio(name), '.2f'):>7}" for name in engines if name != OURS)
    shares = "".join(f"{_number(cell.share_of_peak(name), '.0%'):>6}" for name in engines)
    best = _number(cell.ratio_to_better, ".2f")
    floor = cell.seconds_at_peak
    limit = f"{_number(floor and floor * 1e3, '.3f'):>10}{_number(cell.ratio_at_peak, '.2f'):>7}"
    limit += f"{_number(cell.peak and 2e-9 * cell.peak, '.0f'):>9}{_number(cell.differences.get(OURS), '.0e'):>9}"
    text = f"{cell.model:<16}{cell.threads:>4}{columns}{ratios}{best:>7}  {'':8}{shares}{limit}"
    return "\n".join([text, *(f"    {name}: {reason}" for name, reason in cell.failures.items())])


def means(cells: Sequence[Cell], models: int) -> list[str]:
    """For each number of threads: the geometric mean of our ratios to the better peer, and where we are slower."""
    lines = []
    for threads in dict.fromkeys(c.threads for c in cells):
        ratios = {c.model: r for c in cells if c.threads == threads and (r := c.ratio_to_better) is not None}
        if not ratios:
            lines.append(f"threads {threads}: no model has figures of ours and of a peer")
            continue
        limits = [r for c in cells if c.threads == threads and c.model in ratios and (r := c.ratio_at_peak) is not None]
        limit = f" (all multiply-adds at the peak: {geometric_mean(limits):.3f})" if limits else ""
        slower = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < 1]
        lines.append(
            f"threads {threads}: geometric mean {geometric_mean(list(ratios.values())):.3f} times the better peer's "
            f"speed{limit} over {len(ratios)} of {models} models; slower on: {', '.join(slower) or 'none'}"
        )
    return lines


def memory_line(model: str, threads: int, found: Mapping[str, Mapping[str, float] | str]) -> str:
    """Peak resident memory of each engine alone, in MiB, with what it is made of at the end."""
    parts = []
    for name, memory in found.items():
        if isinstance(memory, str):
            parts.append(f"{name} {NONE} ({memory})")
        else:
            mib = {key: value / 2**20 for key, value in memory.items() if key.endswith("bytes")}
            parts.append(
                f"{name} {mib['peak_bytes']:.0f} MiB (private {mib['anonymous_bytes']:.0f}, files "
                f"{mib['file_bytes']:.0f})"
            )
    return f"{model:<16}{threads:>4}  " + "; ".join(parts)


def _milliseconds(found: Timing | None) -> str:
    if found is None:
        return NONE
    return f"{found.median * 1e3:.3f} ({found.lower * 1e3:.3f}-{found.upper * 1e3:.3f})"


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else format(value, form)
