"""Layouts as words of axes, and the numpy kernels of ``layout_transform`` and ``meshgrid``."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from byoc.runtime.errors import UserError
from byoc.runtime.kernels.registry import kernel

_AXIS = re.compile(r"([A-Z])|(\d+)([a-z])")


@dataclass(frozen=True)
class Axis:
    """One axis of a layout: its capital letter, and the size of the block where it is an inner part, else 0."""

    letter: str
    block: int = 0


def parse_layout(layout: str) -> list[Axis]:
    """The axes of *layout*, such as ``NCHW8c``.

    Raises UserError for a word that is no layout, an axis given twice, or a block without its axis.
    """
    axes, place = [], 0
    while place < len(layout):
        match = _AXIS.match(layout, place)
        if match is None:
            raise UserError(f"{layout!r} is no layout: at {layout[place:]!r} an axis such as C or 8c is expected")
        axes.append(Axis(match[1]) if match[1] else Axis(match[3].upper(), int(match[2])))
        place = match.end()
    outer = [a.letter for a in axes if not a.block]
    inner = [a.letter for a in axes if a.block]
    if len(set(outer)) != len(outer) or len(set(inner)) != len(inner) or not set(inner) <= set(outer):
        raise UserError(f"{layout!r} is no layout: each axis stands once, and a block beside its axis")
    if any(match.group(2) == "0" for match in _AXIS.finditer(layout)):
        raise UserError(f"{layout!r} is no layout: a block has at least one element")
    return axes


@kernel("layout_transform")
def layout_transform(data: np.ndarray, *, src_layout: str, dst_layout: str) -> np.ndarray:
    """The elements in another order of axes: blocks are joined, axes permuted, blocks cut."""
    src, dst = parse_layout(src_layout), parse_layout(dst_layout)
    letters = [a.letter for a in dst if not a.block]
    order = [k for letter in letters for k in _places(src, letter)]
    whole = [int(np.prod([data.shape[k] for k in _places(src, letter)])) for letter in letters]
    joined = np.transpose(data, order).reshape(whole)
    parts: list[Axis] = []
    sizes: list[int] = []
    for letter, size in zip(letters, whole, strict=True):
        block = next((a.block for a in dst if a.letter == letter and a.block), 0)
        parts += [Axis(letter), Axis(letter, block)] if block else [Axis(letter)]
        sizes += [size // block, block] if block else [size]
    return np.transpose(joined.reshape(sizes), [parts.index(a) for a in dst]).copy()


def _places(layout: list[Axis], letter: str) -> list[int]:
    """Where *letter* stands in *layout*: the axis, then its block."""
    found = [k for k, a in enumerate(layout) if a.letter == letter]
    return sorted(found, key=lambda k: bool(layout[k].block))


@kernel("meshgrid")
def meshgrid(data: list[np.ndarray], *, indexing: str = "ij") -> tuple[np.ndarray, ...]:
    """Each vector spread over the grid that all of them span."""
    return tuple(np.meshgrid(*data, indexing=indexing))  # type: ignore[arg-type]
