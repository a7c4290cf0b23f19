"""The colours of places: the host is grey, each target has its own."""

from __future__ import annotations

from collections.abc import Sequence

# fill and frame by target, the host first; more targets begin again after the host
COLOURS = (
    ("#eeeeee", "#888888"),
    ("#cfe8ff", "#1f6fb2"),
    ("#ffe3c2", "#c46a00"),
    ("#d5f2d0", "#2e7d32"),
    ("#f3d4f0", "#8e2a86"),
    ("#fff3b0", "#9a7d00"),
    ("#d8d6f7", "#4a3fb5"),
)


def colour(places: Sequence[str], place: str) -> tuple[str, str]:
    """The fill and the frame of *place*, one of *places*, of which the first is the host."""
    at = places.index(place) if place in places else 0
    return COLOURS[0] if at == 0 else COLOURS[1 + (at - 1) % (len(COLOURS) - 1)]
