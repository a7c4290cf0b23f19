"""A plan as plain text: the regions as a table, then what stays on the host and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING

from byoc.partition.calls import Decision
from byoc.partition.costs.work import Boundary

if TYPE_CHECKING:
    from byoc.partition.content.cut import PlannedCut
    from byoc.partition.content.region_measures import PlannedRegion
    from byoc.partition.cut.cost_breakdown import CostBreakdown

HEADER = ("region", "target", "operators", "bytes in", "bytes out", "constants", "operations")
COST_HEADER = ("estimate", "measured")
SHOWN_NODES = 4
WHOLE = "total"  # the name under which a plan keeps what the whole model took
PROVEN = 1e-6


def plan_table(plan: PlannedCut) -> str:
    """The plan as text: a line a region, then the host's operators grouped by reason."""
    placed = [d.target is not None and s not in plan.stand_ins for d, s in _with_symbols(plan)]
    total, offloaded = len(placed), sum(placed)
    targets = ", ".join(plan.targets) or "none"
    built = sum(region.symbol not in plan.stand_ins for region in plan.regions)
    lines = [
        f"Plan: policy {plan.policy}, targets {targets}: {built} regions, "
        f"{offloaded} of {total} calls offloaded, {total - offloaded} on the host"
    ]
    if plan.regions:
        more = cost_columns(plan)
        rows = [(*region_row(region, plan.stand_ins), *more.get(region.symbol, ())) for region in plan.regions]
        lines += ["", *_aligned([(*HEADER, *(COST_HEADER if more else ())), *rows])]
        if any(region.dynamic for region in plan.regions):
            lines.append("* sizes known only at run time count as 1")
    if plan.stand_ins:
        lines += ["", "the host stands in for regions that their targets could not make:"]
        lost = (region for region in plan.regions if region.symbol in plan.stand_ins)
        lines += [f"  {region.symbol}: {region.target} {plan.stand_ins[region.symbol]}" for region in lost]
    if plan.total is not None:
        lines += ["", *_cost_lines(plan, plan.total)]
    if plan.host:
        alone = "" if plan.targets else " (no other target was asked)"
        lines += ["", f"on the host{alone}:", *_host_lines(plan)]
    lines += [f"note: {note}" for note in plan.notes]
    return "\n".join(lines)


def cost_columns(plan: PlannedCut) -> dict[str, tuple[str, str]]:
    """For each region what it is estimated to take, and what it took, where either is known."""
    if plan.total is None and not plan.measured:
        return {}
    known = plan.region_seconds()
    return {
        r.symbol: (_number_text(known.get(r.symbol)), _number_text(plan.measured.get(r.symbol))) for r in plan.regions
    }


def _number_text(value: float | None) -> str:
    from byoc.partition.content.explanation import seconds

    return "-" if value is None else seconds(value)


def _cost_lines(plan: PlannedCut, total: CostBreakdown) -> list[str]:
    from byoc.partition.content.explanation import seconds

    took = plan.measured.get(WHOLE)
    measured = "" if took is None else f", measured {seconds(took)}"
    proven = "gap unknown" if total.gap is None else "proven best" if total.gap <= PROVEN else f"gap {total.gap:.2%}"
    lines = [
        f"{total.objective}: estimate {seconds(total.seconds)}{measured}: work {seconds(total.work)}, "
        f"transfers {seconds(total.transfers)}, launches {seconds(total.launches)} ({total.method}, {proven})"
    ]
    brought: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for move in plan.moves:
        brought[move.source, move.destination] += move.bytes
        times[move.source, move.destination] += 1
    lines += [
        f"  {source} -> {to}: {times[source, to]} tensors, {size:,} bytes" for (source, to), size in brought.items()
    ]
    return lines


def _with_symbols(plan: PlannedCut) -> Iterable[tuple[Decision, str]]:
    return zip(plan.decisions, plan.symbols(), strict=True)


def region_row(region: PlannedRegion, stand_ins: Container[str] = ()) -> tuple[str, ...]:
    """The cells of a region under ``HEADER``; the host computes it where its name is among *stand_ins*."""
    return (
        region.symbol,
        f"host (not {region.target})" if region.symbol in stand_ins else region.target,
        counted(region.operators),
        _bytes(region.inputs),
        _bytes(region.outputs),
        f"{region.constant_bytes:,}",
        f"{region.operations:,}",
    )


def counted(names: Iterable[str]) -> str:
    """``nn.conv2d x3, nn.relu``: names with how often they occur, in the order of first occurrence."""
    return ", ".join(f"{name} x{count}" if count > 1 else name for name, count in Counter(names).items())


def _bytes(borders: Sequence[Boundary]) -> str:
    return f"{sum(b.bytes for b in borders):,}" + ("*" if any(b.dynamic for b in borders) else "")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    left = 3  # the columns of text; those of numbers are set right
    lines = [
        "  ".join(c.ljust(w) if k < left else c.rjust(w) for k, (c, w) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    ]
    return [lines[0].rstrip(), "  ".join("-" * w for w in widths), *(line.rstrip() for line in lines[1:])]


def _host_lines(plan: PlannedCut) -> list[str]:
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
    for operator, nodes, why in plan.host_reasons():
        groups.setdefault((operator, why), []).extend(nodes)
        counts[operator, why] += 1
    lines: list[str] = []
    for (operator, why), names in groups.items():
        count = counts[operator, why]
        where = ", ".join(names[:SHOWN_NODES]) + (", …" if len(names) > SHOWN_NODES else "")
        lines.append(f"  {operator}{f' x{count}' if count > 1 else ''}{f' ({where})' if where else ''}")
        lines += [f"    {sentence}" for sentence in why]
    return lines
