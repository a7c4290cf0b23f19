"""A plan as a page: the graph coloured by place, regions, costs, moves, and the reason of each operator that stayed.

One file, which fetches nothing. Without a script it shows all; with its own it is searched, zoomed, sorted.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.boundaries import HOST
from byoc.partition.content.explanation import seconds
from byoc.partition.show.draw import svg_of
from byoc.partition.show.picture import picture_of
from byoc.partition.show.table import COST_HEADER, HEADER, WHOLE, cost_columns, region_row
from byoc.runtime.page.document import document
from byoc.runtime.page.document import fragment as live
from byoc.runtime.page.parts import Mark, TableCell, legend, picture, table, time_line

if TYPE_CHECKING:
    from byoc.partition.calls import Decision
    from byoc.partition.content.cut import PlannedCut

MOST_DRAWN = 2000  # calls of a graph that a notebook draws


def to_html(mod: IRModule, plan: PlannedCut, model: str = "") -> str:
    """The page of *plan* for *mod*, which is called *model*. Raises PartitionError where they do not fit."""
    return document(_title(plan, model), fragment(plan, mod, model))


def _title(plan: PlannedCut, model: str) -> str:
    return f"Plan of {model or plan.mod_name} on {', '.join((*plan.targets, HOST))}"


def fragment(plan: PlannedCut, mod: IRModule | None = None, model: str = "") -> str:
    """The content of the page, without the graph where *mod* is None."""
    places = (HOST, *plan.targets)
    away = sum(d.target is not None for d in plan.decisions)
    return live(
        [
            f"<h1>{escape(_title(plan, model))}</h1>",
            f"<p><b>policy {escape(plan.policy)}</b>, targets {escape(', '.join(plan.targets) or 'none')}: "
            f"{len(plan.regions)} regions, {away} of {len(plan.decisions)} calls offloaded</p>",
            *_costs(plan),
            *(f"<p>note: {escape(note)}</p>" for note in plan.notes),
            legend(places),
            ""
            if mod is None
            else picture(svg_of(picture_of(mod, plan), for_page=True), "graph", "an operator or node"),
            _bars(plan, places),
            _one_after_the_other(plan, places),
            _titled("Regions", _regions(plan)),
            _titled("What is moved", _moves(plan)),
            _decisions(plan.decisions, places),
        ]
    )


def notebook(plan: PlannedCut, mod: IRModule | None) -> str:
    """What a notebook shows: with the graph of *mod*, which the plan is for, where it is known and not too large."""
    small = len(plan.decisions) <= MOST_DRAWN
    try:
        return fragment(plan, mod if small else None)
    except PartitionError:  # the module was changed since
        return fragment(plan)


def _titled(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>{content}" if content else ""


def _costs(plan: PlannedCut) -> Iterable[str]:
    total = plan.total
    if total is None:
        return
    gap = "unknown" if total.gap is None else f"{total.gap:.2%}"
    took = plan.measured.get(WHOLE)
    measured = f", measured {seconds(took)}" if took is not None else ""
    yield (
        f"<p>{escape(total.objective)}: estimate <b>{seconds(total.seconds)}</b>{measured} = "
        f"work {seconds(total.work)} + transfers {seconds(total.transfers)} + launches {seconds(total.launches)}; "
        f"gap {gap}, by {escape(total.method)}</p>"
    )


def _bars(plan: PlannedCut, places: Sequence[str]) -> str:
    """What the regions, the host and the transfers take, as estimated and as measured."""
    estimated = plan.region_seconds()
    if plan.total is None or not plan.decisions:
        return ""
    own = [d.seconds or 0.0 for d, symbol in zip(plan.decisions, plan.symbols(), strict=True) if not symbol]
    found = [(r.symbol, r.target, estimated.get(r.symbol), plan.measured.get(r.symbol)) for r in plan.regions]
    found.append((HOST, HOST, sum(own), plan.measured.get(HOST)))
    found += [("transfers", "", plan.total.transfers, None), ("launches", "", plan.total.launches, None)]
    longest = max((v for row in found for v in row[2:] if v is not None), default=0.0) or 1.0

    def bar(value: float | None, place: str) -> TableCell:
        return TableCell("-", 0.0) if value is None else TableCell(seconds(value), value, value / longest, place)

    rows = [
        (TableCell(name), TableCell(place), bar(first, place), bar(second, place))
        for name, place, first, second in found
    ]
    return _titled("Costs", table(("", "place", "estimate", "measured"), rows, 2, places))


def _one_after_the_other(plan: PlannedCut, places: Sequence[str]) -> str:
    """The estimates of the operators in their order: nothing overlaps in it."""
    marks: list[Mark] = []
    now = 0.0
    for decision, symbol in zip(plan.decisions, plan.symbols(), strict=True):
        if decision.seconds:
            place, nodes = decision.target or HOST, ", ".join(decision.nodes)
            tip = f"{decision.operator}\n{nodes}\n{symbol or HOST}\nestimate {seconds(decision.seconds)}"
            marks.append(Mark(place, now, now + decision.seconds, decision.operator, tip, place))
            now += decision.seconds
    return _titled("Estimates, one operator after the other", time_line(marks, places))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    return table(header, ([TableCell(text) for text in cells] for cells in rows), left)


def _regions(plan: PlannedCut) -> str:
    more = cost_columns(plan)
    header = (*HEADER, *(COST_HEADER if more else ()))
    return _table(header, [(*region_row(r, plan.stand_ins), *more.get(r.symbol, ())) for r in plan.regions], 3)


def _moves(plan: PlannedCut) -> str:
    rows = [
        (
            *(TableCell(text) for text in (m.tensor, m.source, m.destination)),
            TableCell(f"{m.bytes:,}", m.bytes),
            TableCell(seconds(m.seconds), m.seconds),
        )
        for m in plan.moves
    ]
    return table(("tensor", "from", "to", "bytes", "estimate"), rows, 3)


def _decisions(decisions: Sequence[Decision], places: Sequence[str]) -> str:
    longest = max((d.seconds or 0.0 for d in decisions), default=0.0) or 1.0
    rows = []
    for decision in decisions:
        why = "; ".join(f"{t}: {r} [{r.code}]" for t, v in decision.verdicts for r in v.why)
        place = decision.target or HOST
        cost = TableCell("", 0.0, place=place)
        if decision.seconds is not None:
            cost = TableCell(seconds(decision.seconds), decision.seconds, decision.seconds / longest, place)
        texts = (decision.operator, ", ".join(decision.nodes), place, why)
        rows.append((*map(TableCell, texts), cost))
    found = table(("operator", "node", "place", "why not elsewhere", "estimate"), rows, 4, places)
    return f"<details open><summary>{len(decisions)} operators</summary>{found}</details>"
