"""A plan as a page: the graph coloured by place, regions, costs, moves, and the reason of each operator that stayed.

One file without scripts; nothing is fetched. Text from the model is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from byoc.errors import PartitionError
from byoc.ir.module import IRModule
from byoc.partition.content.explanation import HOST, seconds
from byoc.partition.show.draw import to_svg
from byoc.partition.show.table import COST_HEADER, HEADER, WHOLE, cost_columns, region_row

if TYPE_CHECKING:
    from byoc.partition.content.planned_cut import PlannedCut
    from byoc.partition.decision import Decision

STYLE = (
    "<style>.byoc{font:13px/1.5 sans-serif;color:#222}.byoc table{border-collapse:collapse;margin:8px 0}"
    ".byoc td,.byoc th{border:1px solid #ccc;padding:2px 8px;text-align:right}"
    ".byoc td.l,.byoc th.l{text-align:left}.byoc th{background:#f4f4f4}.byoc .graph{overflow:auto;max-height:640px;"
    "border:1px solid #ddd}</style>"
)
MOST_DRAWN = 2000  # calls of a graph that a notebook draws


def to_html(mod: IRModule, plan: PlannedCut) -> str:
    """The page of *plan* for *mod*. Raises PartitionError where they do not fit."""
    title = f"Plan of {plan.mod_name}"
    return (
        f'<!DOCTYPE html>\n<html><head><meta charset="utf-8"><title>{escape(title)}</title></head><body>\n'
        f"{fragment(plan, mod)}\n</body></html>\n"
    )


def fragment(plan: PlannedCut, mod: IRModule | None = None) -> str:
    """The content of the page, without the graph where *mod* is None."""
    graph = "" if mod is None else f'<div class="graph">{_inline(to_svg(mod, plan))}</div>'
    host = sum(d.target is None for d in plan.decisions)
    parts = [
        f"<p><b>policy {escape(plan.policy)}</b>, targets {escape(', '.join(plan.targets) or 'none')}: "
        f"{len(plan.regions)} regions, {len(plan.decisions) - host} of {len(plan.decisions)} calls offloaded</p>",
        *_costs(plan),
        graph,
        _regions(plan),
        _moves(plan),
        _decisions(plan.decisions),
        *(f"<p>note: {escape(note)}</p>" for note in plan.notes),
    ]
    return f'<div class="byoc">{STYLE}{"".join(filter(None, parts))}</div>'


def notebook(plan: PlannedCut, mod: IRModule | None) -> str:
    """What a notebook shows: with the graph of *mod*, which the plan is for, where it is known and not too large."""
    small = len(plan.decisions) <= MOST_DRAWN
    try:
        return fragment(plan, mod if small else None)
    except PartitionError:  # the module was changed since
        return fragment(plan)


def _inline(svg: str) -> str:
    """An SVG document as part of a page."""
    return svg[svg.index("<svg") :]


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


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], left: int) -> str:
    def row(cells: Sequence[str], tag: str) -> str:
        return (
            "<tr>"
            + "".join(f"<{tag}{' class=l' if k < left else ''}>{escape(c)}</{tag}>" for k, c in enumerate(cells))
            + "</tr>"
        )

    body = "".join(row(cells, "td") for cells in rows)
    return f"<table>{row(header, 'th')}{body}</table>" if body else ""


def _regions(plan: PlannedCut) -> str:
    more = cost_columns(plan)
    header = (*HEADER, *(COST_HEADER if more else ()))
    return _table(header, [(*region_row(r), *more.get(r.symbol, ())) for r in plan.regions], 3)


def _moves(plan: PlannedCut) -> str:
    rows = [(m.tensor, m.source, m.destination, f"{m.bytes:,}", seconds(m.seconds)) for m in plan.moves]
    return _table(("tensor", "from", "to", "bytes", "estimate"), rows, 3)


def _decisions(decisions: Sequence[Decision]) -> str:
    rows = []
    for decision in decisions:
        why = "; ".join(f"{t}: {r} [{r.code}]" for t, v in decision.verdicts for r in v.why)
        cost = seconds(decision.seconds) if decision.seconds is not None else ""
        rows.append((decision.operator, ", ".join(decision.nodes), decision.target or HOST, why, cost))
    table = _table(("operator", "node", "place", "why not elsewhere", "estimate"), rows, 4)
    return f"<details><summary>{len(decisions)} operators</summary>{table}</details>"
