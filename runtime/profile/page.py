"""A profile as a page: the graph that ran, the last run as a time line, and its rows at every level with bars."""

from __future__ import annotations

from html import escape

from byoc.runtime.page.document import document, fragment
from byoc.runtime.page.parts import Mark, TableCell, legend, picture, table, time_line
from byoc.runtime.profile.record import FunctionRecord, ProfileRecord, names_of_functions
from byoc.runtime.profile.rows import HOST, LEVELS, ProfileRow, rows
from byoc.runtime.profile.table import heading
from byoc.runtime.profile.trace import lane_of, lane_of_part

HEADER = (
    "",
    "backend",
    "median",
    "min, ms",
    "max, ms",
    "calls",
    "GFLOP/s",
    "GB/s",
    "of peak, %",
    "limit",
    "variant",
    "memory, KB",
    "nodes",
)
TITLES = {"region": "Regions", "kernel": "Kernels", "operator": "Operators", "node": "ONNX nodes"}


def profile_page(profile: ProfileRecord, graph: str = "") -> str:
    """The page of *profile*, with the SVG of the *graph* that ran, where it is given."""
    return document(_title(profile), profile_fragment(profile, graph))


def profile_fragment(profile: ProfileRecord, graph: str = "") -> str:
    """The content of the page, for a notebook too."""
    places = [HOST, *dict.fromkeys(f.backend for f in profile.functions if f.is_region)]
    lines = "".join(f"<p>{escape(line)}</p>" for line in (*heading(profile).split("\n"), *profile.notes))
    levels = [f"<h2>{TITLES[level]}</h2>{_rows(profile, level, places)}" for level in LEVELS]
    stages = _stages(profile)
    return fragment(
        [
            f"<h1>{escape(_title(profile))}</h1>{lines}",
            legend(places),
            picture(graph, "graph", "an operator or node") if graph else "",
            "<h2>The last run</h2>",
            time_line(_marks(profile), places),
            *levels,
            f"<h2>Compiling</h2>{stages}" if stages else "",
        ]
    )


def _title(profile: ProfileRecord) -> str:
    targets = dict.fromkeys(f.backend for f in profile.functions)
    return f"Profile of {profile.model} on {', '.join(targets) or 'the host'}"


def _marks(profile: ProfileRecord) -> list[Mark]:
    """What was at work in the last run."""
    found: list[Mark] = []
    for function, name in zip(profile.functions, names_of_functions(profile.functions), strict=True):
        lane = lane_of(function)
        for begin, end in function.runs[-1] if function.runs else ():
            found.append(Mark(lane, begin, end, name, _tip(function, end - begin), lane))
        inside = f"in {function.symbol}"
        for part in function.parts:
            for begin, end in part.runs[-1] if part.runs else ():
                tip = "\n".join(filter(None, [part.name, part.facts.variant, f"{1e3 * (end - begin):.4g} ms", inside]))
                found.append(Mark(lane_of_part(function, part), begin, end, part.name, tip, lane))
    return found


def _tip(function: FunctionRecord, seconds: float) -> str:
    lines = [function.symbol, f"{1e3 * seconds:.4g} ms on {function.backend}"]
    lines += [", ".join(operator.operator for operator in function.operators), ", ".join(function.nodes)]
    return "\n".join(filter(None, lines))


def _rows(profile: ProfileRecord, level: str, places: list[str]) -> str:
    found = rows(profile, level)
    longest = max((row.median for row in found), default=0.0) or 1.0
    return table(HEADER, (_cells(row, longest, places) for row in found), 2, places)


def _cells(row: ProfileRow, longest: float, places: list[str]) -> list[TableCell]:
    place = row.backend if row.backend in places else HOST
    rates = ((row.rate, 1e-9), (row.bandwidth, 1e-9), (row.of_peak, 100.0))
    divided = " (estimated share)" if row.is_divided else ""
    return [
        TableCell(row.name),
        TableCell(row.backend),
        TableCell(f"{1e3 * row.median:.4g} ms{divided}", row.median, row.median / longest, place),
        *(
            TableCell(f"{1e3 * value:.4g}", float(value))
            for value in (min(row.seconds, default=0), max(row.seconds, default=0))
        ),
        TableCell(str(row.calls), row.calls),
        *(_number(value, scale) for value, scale in rates),
        TableCell(row.limit or "-"),
        TableCell(row.variant or "-"),
        _number(row.memory, 1e-3),
        TableCell(", ".join(row.nodes)),
    ]


def _number(value: float | None, scale: float) -> TableCell:
    return TableCell("-", 0.0) if value is None else TableCell(f"{value * scale:.3g}", float(value))


def _stages(profile: ProfileRecord) -> str:
    longest = max((seconds for _, seconds in profile.compiling.stages), default=0.0) or 1.0
    lines = [
        (TableCell(name), TableCell(f"{seconds:.3f} s", seconds, seconds / longest, HOST))
        for name, seconds in profile.compiling.stages
    ]
    return table(("stage", "seconds"), lines, 1, [HOST])
