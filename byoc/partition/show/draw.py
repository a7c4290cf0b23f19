"""The cut graph as DOT text, and as an SVG that we draw ourselves, so that no other program is needed to see it.

In the SVG a colour a target, in DOT one a region; names from the model are escaped. The same plan gives the same
bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape, quoteattr

from byoc.ir.dot import quoted, region_colour
from byoc.ir.module import IRModule
from byoc.partition.boundaries import HOST
from byoc.partition.content.cut import PlannedCut
from byoc.partition.show.picture import Box, Picture, PictureLayout, layered, picture_of
from byoc.runtime.page.colours import colour as colour_of

WIDTH, HEIGHT, GAP_X, GAP_Y, MARGIN, LEGEND = 172, 40, 20, 34, 20, 34
MAX_LABEL, MAX_ORIGIN = 24, 30


def colour(picture: Picture, target: str) -> tuple[str, str]:
    """The fill and the frame of *target*."""
    return colour_of(picture.targets, target)


def to_dot(mod: IRModule, plan: PlannedCut) -> str:
    """DOT text of *mod* as *plan* cuts it: a cluster and a colour of its own a region, its frame in the target's."""
    picture = picture_of(mod, plan)
    lines = ["digraph plan {", '  node [shape=box, style=filled, fontname="sans-serif"];']
    for region, target in enumerate(picture.regions):
        _, frame = colour(picture, target)
        lines.append(f"  subgraph cluster_{region} {{")
        lines.append(f"    label={quoted(f'region {region}: {target}')}; color={quoted(frame)};")
        lines += [f"    {_dot_box(picture, k)}" for k, box in enumerate(picture.boxes) if box.region == region]
        lines.append("  }")
    lines += [f"  {_dot_box(picture, k)}" for k, box in enumerate(picture.boxes) if box.region < 0]
    lines += [f"  n{source} -> n{sink};" for source, sink in picture.arrows]
    return "\n".join([*lines, "}", ""])


def _dot_box(picture: Picture, number: int) -> str:
    box = picture.boxes[number]
    text = quoted(box.label if not box.origin else f"{box.label}\n{box.origin}")
    fill = region_colour(box.region) if box.region >= 0 else colour(picture, box.target)[0]
    return f"n{number} [label={text}, fillcolor={quoted(fill)}];"


def to_svg(mod: IRModule, plan: PlannedCut) -> str:
    """An SVG of *mod* as *plan* cuts it, inputs at the top. Raises PartitionError where they do not fit."""
    return svg_of(picture_of(mod, plan))


def svg_of(picture: Picture, for_page: bool = False) -> str:
    """The SVG of *picture*; *for_page* without a legend, and with each box's place and cost for the page's script."""
    layout = layered(len(picture.boxes), picture.arrows)
    columns = max(layout.widths, default=1)
    width = max(2 * MARGIN + columns * (WIDTH + GAP_X) - GAP_X, 2 * MARGIN + 150 * len(picture.targets))
    height = 2 * MARGIN + LEGEND + len(layout.widths) * (HEIGHT + GAP_Y)
    corners = [_corner(layout, k, width) for k in range(len(picture.boxes))]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="6" markerHeight="6" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        *([] if for_page else _legend(picture)),
        *(_arrow(corners[source], corners[sink]) for source, sink in picture.arrows),
        *(_box(picture, box, corner, for_page) for box, corner in zip(picture.boxes, corners, strict=True)),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _corner(layout: PictureLayout, box: int, width: int) -> tuple[int, int]:
    """The upper left corner of a box; each layer is centred."""
    layer = layout.layer[box]
    used = layout.widths[layer] * (WIDTH + GAP_X) - GAP_X
    x = (width - used) // 2 + layout.place[box] * (WIDTH + GAP_X)
    return x, MARGIN + LEGEND + layer * (HEIGHT + GAP_Y)


def _legend(picture: Picture) -> Sequence[str]:
    parts: list[str] = []
    for k, target in enumerate(picture.targets):
        fill, frame = colour(picture, target)
        x = MARGIN + 150 * k
        parts.append(f'<rect x="{x}" y="{MARGIN - 8}" width="14" height="14" fill="{fill}" stroke="{frame}"/>')
        parts.append(f'<text x="{x + 20}" y="{MARGIN + 4}">{_text(target, 16)}</text>')
    return parts


def _arrow(source: tuple[int, int], sink: tuple[int, int]) -> str:
    x1, y1 = source[0] + WIDTH // 2, source[1] + HEIGHT
    x2, y2 = sink[0] + WIDTH // 2, sink[1]
    bend = (y2 - y1) // 2
    around = WIDTH * 3 // 4 if y2 - y1 > GAP_Y and abs(x2 - x1) < WIDTH else 0  # past the boxes of the layers between
    return (
        f'<path d="M{x1} {y1}C{x1 + around} {y1 + bend} {x2 + around} {y2 - bend} {x2} {y2}" fill="none" '
        'stroke="#555" marker-end="url(#tip)"/>'
    )


def _box(picture: Picture, box: Box, corner: tuple[int, int], for_page: bool) -> str:
    x, y = corner
    fill, frame = colour(picture, box.target)
    where = box.target if box.region < 0 else f"{box.target}, region {box.region}"
    middle = x + WIDTH // 2
    more, place = "", ""
    if for_page:
        more = f"\n{box.note}" if box.note else ""
        place = f" data-place={quoteattr(_text(box.target, 200))}"
    title = _text(f"{box.label}\n{box.origin}\n{where}{more}".strip(), 2000)
    mark = "" if box.region < 0 else f'<text x="{x + 5}" y="{y + 12}" font-size="9" fill="{frame}">{box.region}</text>'
    rounded = 10 if box.target == HOST else 3
    return (
        f'<g{place}><title>{title}</title><rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="{rounded}" '
        f'fill="{fill}" stroke="{frame}"/>{mark}'
        f'<text x="{middle}" y="{y + 17}" text-anchor="middle">{_text(box.label, MAX_LABEL)}</text>'
        f'<text x="{middle}" y="{y + 32}" text-anchor="middle" font-size="9" fill="#444">'
        f"{_text(box.origin, MAX_ORIGIN)}</text></g>"
    )


def _text(text: str, limit: int) -> str:
    """*text* for XML, cut to *limit* characters, control characters as question marks."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return escape("".join(c if c.isprintable() or c == "\n" else "?" for c in short))
