"""What pages are made of: legends, pictures with their tools, time lines, tables with bars."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from byoc.runtime.page.colours import colour

WIDTH, LANE, BAR, MARGIN = 1200, 30, 20, 110
LETTER = 7  # the width of a letter
SHADES = ("#fafafa", "#f3f3f3")  # of lanes
LEAST_BAR = 0.4  # of a time line: what took no time is seen
MOST_MARKS = 4000  # of a time line: the longest are drawn


@dataclass(frozen=True)
class TableCell:
    """A cell of a table: its text, the number that it is sorted by, and for a bar its share of the longest (0 to 1) and
    its place, which gives the colour.
    """

    text: str
    value: float | None = None
    share: float | None = None
    place: str = ""


@dataclass(frozen=True)
class Mark:
    """Something at work in a lane of a time line, from *begin* to *end* in seconds."""

    lane: str
    begin: float
    end: float
    name: str
    tip: str
    place: str


def legend(places: Sequence[str]) -> str:
    """What each colour means; a place can be switched off."""
    return '<div class="legend">' + "".join(_entry(places, place) for place in places) + "</div>"


def _entry(places: Sequence[str], place: str) -> str:
    fill, frame = colour(places, place)
    name = escape(place)
    box = f'<input type="checkbox" checked value="{name}">'
    return f'<label>{box}<i style="background:{fill};border:1px solid {frame}"></i>{name}</label>'


def picture(svg: str, kind: str, what: str) -> str:
    """An SVG that is zoomed by the wheel and the buttons, moved by the pointer, and searched for *what*."""
    drawn = svg[svg.index("<svg") :]
    tools = (
        f'<div class="tools"><input type="search" placeholder="find {escape(what)}"><span class="found"></span>'
        '<button data-act="in" title="zoom in">+</button><button data-act="out" title="zoom out">&minus;</button>'
        '<button data-act="fit" title="see all">fit</button></div>'
    )
    return f'<div class="picture {kind}">{tools}<div class="view">{drawn}</div></div>'


def time_line(marks: Sequence[Mark], places: Sequence[str], unit: float = 1e-3, unit_name: str = "ms") -> str:
    """A lane for each place and what was at work in it; what overlaps in time stands one above the other."""
    shown = sorted(sorted(marks, key=lambda m: m.begin - m.end)[:MOST_MARKS], key=lambda m: m.begin)
    if not shown:
        return ""
    lanes = list(dict.fromkeys(mark.lane for mark in marks))
    end = max(mark.end for mark in shown) or 1.0
    height = LANE * (len(lanes) + 1)
    scale = (WIDTH - MARGIN - 10) / end
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="11">'
    ]
    for number, lane in enumerate(lanes):
        y = LANE * number
        shade = SHADES[number % 2]
        parts.append(f'<rect x="0" y="{y}" width="{WIDTH}" height="{LANE}" fill="{shade}"/>')
        parts.append(f'<text class="lane" x="6" y="{y + 19}">{escape(lane[:18])}</text>')
    for k in range(6):
        x = MARGIN + scale * end * k / 5
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - LANE}" stroke="#ddd"/>')
        anchor = "end" if k == 5 else "middle"
        parts.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="{anchor}">{end * k / 5 / unit:.4g}</text>')
    parts.append(f'<text class="lane" x="6" y="{height - 10}">{escape(unit_name)}</text>')
    parts += [_mark(mark, places, LANE * lanes.index(mark.lane), scale) for mark in shown]
    return picture("".join([*parts, "</svg>"]), "line", "a kernel, operator or node")


def _mark(mark: Mark, places: Sequence[str], y: float, scale: float) -> str:
    fill, frame = colour(places, mark.place)
    x, width = MARGIN + scale * mark.begin, max(scale * (mark.end - mark.begin), LEAST_BAR)
    shown = mark.name if width > LETTER * len(mark.name) else mark.name[: int(width / LETTER)]
    label = f'<text x="{x + 3:.2f}" y="{y + 19}">{escape(shown)}</text>'
    return (
        f'<g data-place="{escape(mark.place)}" data-name="{escape(mark.name)}"><title>{escape(mark.tip)}</title>'
        f'<rect x="{x:.2f}" y="{y + (LANE - BAR) / 2}" width="{width:.2f}" height="{BAR}" fill="{fill}" '
        f'stroke="{frame}" stroke-width=".5"/>{label}</g>'
    )


def table(header: Sequence[str], rows: Iterable[Sequence[TableCell]], left: int, places: Sequence[str] = ()) -> str:
    """A table whose first *left* columns are texts; a click on a heading sorts it, a field filters it."""
    found = list(rows)
    if not found:
        return ""
    texts = [k < left or cell.value is None for k, cell in enumerate(found[0])]
    heads = "".join(f"<th{' class=l' if is_l else ''}>{escape(h)}</th>" for h, is_l in zip(header, texts, strict=True))
    body = "".join(_row(cells, left, places) for cells in found)
    tools = '<div class="tools"><input type="search" placeholder="filter rows"></div>'
    return f"<div>{tools}<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"


def _row(cells: Sequence[TableCell], left: int, places: Sequence[str]) -> str:
    place = next((cell.place for cell in cells if cell.place), "")
    where = f' data-place="{escape(place)}"' if place else ""
    drawn = (_cell(cell, k < left or cell.value is None, places) for k, cell in enumerate(cells))
    return f"<tr{where}>{''.join(drawn)}</tr>"


def _cell(cell: TableCell, is_text: bool, places: Sequence[str]) -> str:
    value = "" if cell.value is None else f' data-value="{cell.value:.9g}"'
    if cell.share is not None:
        fill, frame = colour(places, cell.place)
        wide = f"{160 * min(max(cell.share, 0.0), 1.0):.1f}px"
        bar = f'<i style="width:{wide};background:{fill};border:1px solid {frame}"></i>'
        return f'<td class="bar"{value}>{bar}{escape(cell.text)}</td>'
    return f"<td{' class=l' if is_text else ''}{value}>{escape(cell.text)}</td>"
