"""Pieces of the DOT language of Graphviz. Source: https://graphviz.org/doc/info/lang.html."""

from __future__ import annotations

GOLDEN = 0.6180339887498949  # its multiples, taken modulo 1, lie far apart, however many they are


def quoted(text: str) -> str:
    """*text* as a quoted string; control characters become question marks."""
    printable = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return '"' + printable.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def region_colour(region: int) -> str:
    """A light colour for the region of that number, as hue, saturation and value; each region has one of its own."""
    return f"{(region * GOLDEN) % 1.0:.5f} 0.25 1.0"
