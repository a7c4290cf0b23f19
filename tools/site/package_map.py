"""The map of the packages, drawn as SVG from their imports: who stands on whom, and which subpackages each has.

A package stands in the row above the highest one that it imports. An arrow is an import; one that follows from others
(``a`` to ``c`` where ``a`` reaches ``c`` through ``b``) is left out. Rules about imports are in ``tests/architecture``.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import networkx

from tools.health.sources import imported, modules, tree

BOX_WIDTH, LINE, PADDING, GAP_X, GAP_Y, MARGIN = 320, 16, 12, 28, 44, 16
CHARACTERS = 50  # of 11 pixels in a box
TOP = 2  # names that begin with this many parts are one package of the map
NOT_DRAWN = frozenset({"byoc", "byoc.__main__"})  # they lead to others


def package(module: str) -> str:
    """The package of the map that *module* belongs to: ``byoc.relay`` for ``byoc.relay.op.nn.dense``."""
    return ".".join(module.split(".")[:TOP])


def room(module: str) -> str:
    """The folder of its package in which *module* stands; "" for the package's own."""
    parts = module.split(".")
    inner = modules()[module].name == "__init__.py" and len(parts) > TOP
    return parts[TOP] if inner or len(parts) > TOP + 1 else ""


@dataclass(frozen=True)
class Packages:
    """The packages of byoc: their subpackages with numbers of files, and who imports whom."""

    rooms: Mapping[str, Mapping[str, int]]
    imports: networkx.DiGraph

    @staticmethod
    def read() -> Packages:
        """As the files have it now. Raises ValueError where packages import each other in a cycle."""
        names = [name for name in modules() if name not in NOT_DRAWN]
        rooms: dict[str, Counter[str]] = {}
        imports = networkx.DiGraph()
        for name in names:
            own = package(name)
            rooms.setdefault(own, Counter())[room(name)] += 1
            imports.add_node(own)
            others = {package(other) for other in imported(name) if other not in NOT_DRAWN}
            imports.add_edges_from((own, other) for other in others if other != own)
        if not networkx.is_directed_acyclic_graph(imports):
            raise ValueError(f"packages import each other: {networkx.find_cycle(imports)}")
        return Packages(rooms, imports)

    @cached_property
    def arrows(self) -> Sequence[tuple[str, str]]:
        """The imports that do not follow from others."""
        return sorted(networkx.transitive_reduction(self.imports).edges)

    @cached_property
    def rows(self) -> Sequence[Sequence[str]]:
        """Packages from the top, who imports most, to the bottom, who imports nothing of ours."""
        generations = list(networkx.topological_generations(self.imports.reverse()))
        return [sorted(row) for row in reversed(generations)]


def summary(name: str) -> str:
    """What a package says of itself: its docstring, up to the first full stop or colon."""
    text = ast.get_docstring(tree(modules()[name])) or ""
    first = " ".join(text.split("\n\n")[0].split()).replace("``", "")
    return first.split(". ")[0].rstrip(".")


def wrapped(text: str, width: int = CHARACTERS) -> list[str]:
    """*text* in lines of at most *width* characters, cut between words."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


@dataclass(frozen=True)
class MapBox:
    """A package on the map: its corner, its size, and the lines in it."""

    name: str
    files: int
    about: Sequence[str]
    rooms: Sequence[str]
    x: int
    y: int

    @property
    def height(self) -> int:
        """In pixels."""
        return 2 * PADDING + LINE * (1 + len(self.about) + len(self.rooms))

    def svg(self) -> str:
        """The box with its lines."""
        y = self.y + PADDING + LINE - 4
        parts = [
            f'<rect x="{self.x}" y="{self.y}" width="{BOX_WIDTH}" height="{self.height}" rx="5" fill="#eef4fb" '
            'stroke="#1f6fb2"/>',
            f'<text x="{self.x + PADDING}" y="{y}" font-weight="bold" font-size="13" fill="#123">{self.name}</text>',
            f'<text x="{self.x + BOX_WIDTH - PADDING}" y="{y}" text-anchor="end" fill="#666">{self.files} files</text>',
        ]
        for number, line in enumerate([*self.about, *self.rooms], 1):
            colour = "#123" if number <= len(self.about) else "#1f6fb2"
            place = f'x="{self.x + PADDING}" y="{y + number * LINE}"'
            parts.append(f'<text {place} fill="{colour}">{escape(line)}</text>')
        return "".join(parts)


def boxes(packages: Packages) -> list[MapBox]:
    """Every package at its place, each row in the middle."""
    columns = max(len(row) for row in packages.rows)
    width = columns * (BOX_WIDTH + GAP_X) - GAP_X
    placed, y = [], MARGIN
    for row in packages.rows:
        x = MARGIN + (width - len(row) * (BOX_WIDTH + GAP_X) + GAP_X) // 2
        made = []
        for name in row:
            counts = packages.rooms[name]
            rooms = " · ".join(f"{inner} {count}" for inner, count in sorted(counts.items()) if inner)
            about = wrapped(summary(name))
            made.append(MapBox(name, sum(counts.values()), about, wrapped(rooms) if rooms else [], x, y))
            x += BOX_WIDTH + GAP_X
        placed += made
        y += max(box.height for box in made) + GAP_Y
    return placed


def package_map(packages: Packages) -> str:
    """The map as SVG; the same files give the same bytes."""
    placed = {box.name: box for box in boxes(packages)}
    width = max(box.x for box in placed.values()) + BOX_WIDTH + MARGIN
    height = max(box.y + box.height for box in placed.values()) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="11" role="img">',
        "<title>The packages of byoc, their subpackages with numbers of files, and who imports whom</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        '<defs><marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555"/></marker></defs>',
        *(arrow(placed[above], placed[below]) for above, below in packages.arrows),
        *(box.svg() for box in placed.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def arrow(above: MapBox, below: MapBox) -> str:
    """From the package that imports to the one that is imported."""
    x1, y1 = above.x + BOX_WIDTH // 2, above.y + above.height
    x2, y2 = below.x + BOX_WIDTH // 2, below.y
    bend = (y2 - y1) // 2
    path = f"M{x1} {y1}C{x1} {y1 + bend} {x2} {y2 - bend} {x2} {y2}"
    return f'<path d="{path}" fill="none" stroke="#555" marker-end="url(#end)"/>'
