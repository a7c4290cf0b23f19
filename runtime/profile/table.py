"""A profile as text: one line for what was measured, then the rows; and two profiles side by side."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from byoc.runtime.devices.peak import ANY, Peak
from byoc.runtime.profile.record import ProfileRecord
from byoc.runtime.profile.rows import ProfileRow, rows

HEADER = (
    "",
    "backend",
    "calls",
    "min",
    "median",
    "max",
    "last",
    "share",
    "GFLOP/s",
    "GB/s",
    "of peak",
    "limit",
    "memory",
    "in queue",
    "on device",
    "variant",
    "gws/lws",
    "operators",
    "nodes",
)
UNITS = ("", "", "", "ms", "ms", "ms", "ms", "%", "", "", "%", "", "KB", "ms", "ms", "", "", "", "")
OF_DEVICE = (
    "in queue",
    "on device",
    "variant",
    "gws/lws",
    "operators",
)  # shown where a row is a kernel or a copy of a device
LONGEST_NAME, LONGEST_NODE = 60, 32
TAIL = 16  # letters of a long name that are shown of its end, in which kernels of one kind differ
ABOVE = 1.05  # of a peak: what is less may be the clock's
DIVIDED = "~"


def table(profile: ProfileRecord, by: str = "kernel", most: int | None = 40) -> str:
    """*profile* as a table of its *most* longest rows (all for None). Raises UserError for an unknown level."""
    found = rows(profile, by)
    total = statistics.median(profile.seconds) if profile.seconds else 0.0
    cells = [(f"by {by}", *HEADER[1:]), UNITS, *(_cells(row, total) for row in found[:most])]
    left_out = [] if any(row.sizes for row in found) else list(OF_DEVICE)
    left_out += [] if any(row.limit for row in found) else ["limit"]
    shown = [k for k, name in enumerate(HEADER) if name not in left_out]
    cells = [tuple(line[k] for k in shown) for line in cells]
    numbers = _aligned([line[:-1] for line in cells])  # behind them the nodes, to the left
    lines = [heading(profile), *(f"{n}  {line[-1]}".rstrip() for n, line in zip(numbers, cells, strict=True))]
    if most is not None and len(found) > most:
        rest = sum(row.median for row in found[most:])
        lines.append(f"and {len(found) - most} more, {_ms(rest)} ms together")
    if any(row.is_divided for row in found):
        lines.append(
            f"{DIVIDED} the time of a kernel with several operators, divided by what each is estimated to take"
        )
    if any((row.of_peak or 0.0) > ABOVE for row in found):
        lines.append(
            "more than 100 % of a peak: units that the peak leaves out, a cache that is nearer than its copies, or a "
            "peak that was measured while the machine was busy"
        )
    lines += [f"{_ms(profile.rest())} ms of the median run are outside of all functions"]
    lines += [f"note: {note}" for note in profile.notes]
    if profile.compiling.stages:
        lines += ["", *_compiling(profile)]
    return "\n".join(lines)


def heading(profile: ProfileRecord) -> str:
    """What was run, how often, and what it took."""
    runs = f"{len(profile.seconds)} runs after {profile.warmup} of warm-up"
    took = f"{_ms(statistics.median(profile.seconds))} ms" if profile.seconds else "no time"
    whole = ""
    if profile.whole:
        threads = f"{profile.threads} thread{'s' if profile.threads > 1 else ''}"
        whole = f"; the whole program at once, on {threads}: {_ms(statistics.median(profile.whole))} ms"
    begun = f"; the first run, which initialises: {_ms(profile.first)} ms" if profile.first else ""
    memory = ", ".join(f"{name} {size / 1e3:,.0f} KB" for name, size in profile.memory.items())
    peaks = "".join(f"\npeak of {name}: {peak_text(peak)}" for name, peak in profile.peaks.items())
    return f"{profile.model}: {took} by the {profile.executor}, median of {runs}{whole}{begun}" + (
        (f"\nmemory: {memory}" if memory else "") + peaks
    )


def peak_text(peak: Peak) -> str:
    """``99.5 GFLOP/s in float32, 29 in float64; 10.5 GB/s; 0.9 us a launch; measured on ...``"""
    named = {dtype: rate for dtype, rate in peak.operations.items() if dtype != ANY} or {
        "any dtype": peak.operations[ANY]
    }
    rates = ", ".join(f"{rate / 1e9:.3g} in {dtype}" for dtype, rate in named.items()).replace(" in", " GFLOP/s in", 1)
    launch = f"{1e6 * peak.launch:.3g} us a launch" if peak.launch else ""
    near = "".join(f", {rate / 1e9:.3g} up to {most >> 10} KB" for most, rate in peak.near)
    return "; ".join(filter(None, [rates, f"{peak.bandwidth / 1e9:.3g} GB/s{near}", launch, peak.source]))


def _cells(row: ProfileRow, total: float) -> tuple[str, ...]:
    name = row.name if len(row.name) <= LONGEST_NAME else f"{row.name[: LONGEST_NAME - TAIL - 1]}…{row.name[-TAIL:]}"
    spread = [min(row.seconds), row.median, max(row.seconds), row.seconds[-1]] if row.seconds else []
    return (
        f"{DIVIDED if row.is_divided else ''}{name}",
        row.backend,
        str(row.calls),
        *map(_ms, spread),
        f"{100 * row.median / total:.1f}" if total else "-",
        _number(row.rate, 1e9),
        _number(row.bandwidth, 1e9),
        _number(row.of_peak, 0.01),
        row.limit or "-",
        _number(None if row.memory is None else float(row.memory), 1e3),
        "-" if row.in_queue is None else _ms(row.in_queue),
        "-" if row.on_device is None else _ms(row.on_device),
        row.variant or "-",
        "/".join(map(str, row.sizes)),
        _first_of(list(row.operators)),
        _first_of(list(row.nodes)),
    )


def _first_of(nodes: Sequence[str]) -> str:
    """The first of *nodes*, and how many more there are."""
    if not nodes:
        return ""
    first = nodes[0] if len(nodes[0]) <= LONGEST_NODE else "…" + nodes[0][1 - LONGEST_NODE :]
    return f"{first} +{len(nodes) - 1}" if len(nodes) > 1 else first


def _compiling(profile: ProfileRecord) -> list[str]:
    stages = [("compiling", "seconds"), *((name, f"{s:.3f}") for name, s in profile.compiling.stages)]
    found: dict[str, tuple[int, float]] = {}
    for name, depth, seconds in profile.compiling.passes:
        if depth == 0:
            count, before = found.get(name, (0, 0.0))
            found[name] = (count + 1, before + seconds)
    slow = sorted(found.items(), key=lambda item: -item[1][1])[:10]
    passes = [("pass", "runs", "seconds"), *((name, str(count), f"{s:.3f}") for name, (count, s) in slow)]
    return [*_aligned(stages), *(["", *_aligned(passes)] if slow else [])]


def compared(first: ProfileRecord, second: ProfileRecord, by: str = "kernel", most: int | None = 40) -> str:
    """What *second* takes beside *first*: rows of both by name, those that differ most first.

    The rows are those of one model compiled or run twice, differently; one that is in one profile alone says so.
    """
    lines = _aligned(
        [("", "before", "now", "difference"), ("", "ms", "ms", "ms"), *_differences(first, second, by)[:most]]
    )
    totals = [statistics.median(p.seconds) if p.seconds else 0.0 for p in (first, second)]
    change = f"{_ms(totals[0])} ms before, {_ms(totals[1])} ms now"
    return "\n".join([f"{second.model} by {by}, median: {change}", *lines])


def _differences(first: ProfileRecord, second: ProfileRecord, by: str) -> list[tuple[str, str, str, str]]:
    before, now = (_medians(rows(p, by)) for p in (first, second))
    names = sorted({*before, *now}, key=lambda n: (-abs(now.get(n, 0.0) - before.get(n, 0.0)), n))
    return [
        (
            name,
            _ms(before[name]) if name in before else "-",
            _ms(now[name]) if name in now else "-",
            f"{1e3 * (now.get(name, 0.0) - before.get(name, 0.0)):+.4g}",
        )
        for name in names
    ]


def _medians(found: Sequence[ProfileRow]) -> dict[str, float]:
    """By name; the same name on several backends is one."""
    result: dict[str, float] = {}
    for row in found:
        result[row.name] = result.get(row.name, 0.0) + row.median
    return result


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.4g}"


def _number(value: float | None, unit: float) -> str:
    return "-" if value is None else f"{value / unit:.3g}"


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """Columns: the first to the left, the others to the right."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    ]
