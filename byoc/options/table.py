"""The table of a class of options for a docstring: reStructuredText's simple table, which reads well as it is."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Sequence

from byoc.options.declaration import Declared, Options, options_of

HEADS = ("option", "type", "default", "range", "meaning")
WIDTHS = (15, 26, 10, 14, 52)  # in letters; a word that is longer has its column made wider


def table(kind: type[Options]) -> str:
    """A row for each option of *kind*: name, type, default, choices or range, and what it is for."""
    rows = [HEADS, *(_cells(declared) for declared in options_of(kind))]
    broken = [[_lines(text, width) for text, width in zip(row, WIDTHS, strict=True)] for row in rows]
    widths = [max(len(line) for row in broken for line in row[k]) for k in range(len(HEADS))]
    rule = "  ".join("=" * width for width in widths)
    printed = ["\n".join(_row(row, widths)) for row in broken]
    return "\n".join([rule, printed[0], rule, *printed[1:], rule])


def _cells(declared: Declared) -> tuple[str, ...]:
    default = "required" if declared.default is dataclasses.MISSING else repr(declared.default)
    return declared.name, declared.type, default, range_text(declared), declared.about.sentence


def range_text(declared: Declared) -> str:
    """The values that an option may have, where not all of its type: its choices, or from where on; else empty."""
    if declared.about.choices:
        return ", ".join(declared.about.choices)
    return f"from {declared.about.least:g} on" if declared.about.least is not None else ""


def _lines(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False) or [""]


def _row(cells: Sequence[Sequence[str]], widths: Sequence[int]) -> list[str]:
    """The lines of a row, a column's cells one below the other."""
    height = max(map(len, cells))
    filled = [[*cell, *[""] * (height - len(cell))] for cell in cells]
    return [
        "  ".join(part.ljust(w) for part, w in zip(line, widths, strict=True)).rstrip()
        for line in zip(*filled, strict=True)
    ]
