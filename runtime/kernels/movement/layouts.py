"""Layouts as words of axes, and the numpy kernels of ``layout_transform`` and ``meshgrid``."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from byoc.runtime.core.errors import UserError
from byoc.runtime.kernels.core.registry import kernel

_AXIS = re.compile(r"([A-Z])|(\d+)([a-z])")
KEPT_LAYOUTS = 1024  # words whose axes are remembered: type relations and layout rules ask for the same few


Names = tuple[str, ...]


def layout_attributes(attributes: Container[str]) -> tuple[Names, Names]:
    """Those of an operator's *attributes* that hold the layouts of its first inputs, and those for its result.

    Of the latter, the first that is set counts.

    >>> layout_attributes(["strides", "data_layout", "kernel_layout", "out_layout"])
    (('data_layout', 'kernel_layout'), ('out_layout', 'data_layout'))
    """
    inputs = tuple(name for name in ("data_layout", "layout", "kernel_layout") if name in attributes)
    return inputs, (*(name for name in ("out_layout",) if name in attributes), *inputs[:1])


@dataclass(frozen=True)
class NamedAxis:
    """One axis of a layout: its capital letter, and the size of the block where it is an inner part, else 0."""

    letter: str
    block: int = 0


def split_layout(layout: str) -> list[NamedAxis]:
    """The axes of *layout* one by one. Raises UserError for a word that is not made of axes such as C or 8c."""
    axes, place = [], 0
    while place < len(layout):
        match = _AXIS.match(layout, place)
        if match is None:
            raise UserError(f"{layout!r} is no layout: at {layout[place:]!r} an axis such as C or 8c is expected")
        axes.append(NamedAxis(match[1]) if match[1] else NamedAxis(match[3].upper(), int(match[2])))
        place = match.end()
    if any(match.group(2) == "0" for match in _AXIS.finditer(layout)):
        raise UserError(f"{layout!r} is no layout: a block has at least one element")
    return axes


@functools.lru_cache(KEPT_LAYOUTS)
def parse_layout(layout: str) -> tuple[NamedAxis, ...]:
    """The axes of *layout*, such as ``NCHW8c``; an axis may have several blocks, the greater before the smaller.

    Raises UserError for a word that is no layout, an axis given twice, or a block without its axis.
    """
    axes = split_layout(layout)
    outer = [a.letter for a in axes if not a.block]
    inner = {a.letter for a in axes if a.block}
    if len(set(outer)) != len(outer) or not inner <= set(outer):
        raise UserError(f"{layout!r} is no layout: each axis stands once, and a block beside its axis")
    return tuple(axes)


def places_of(layout: Sequence[NamedAxis], letter: str) -> list[int]:
    """Where *letter* stands in *layout*: the axis, then its blocks from the greatest step to the smallest."""
    found = [k for k, a in enumerate(layout) if a.letter == letter]
    return sorted(found, key=lambda k: bool(layout[k].block))


def block_of(layout: Sequence[NamedAxis], letter: str) -> int:
    """How many elements of *letter* lie inside its blocks: the product of their sizes, 1 without any."""
    return math.prod(a.block for a in layout if a.letter == letter and a.block)


def whole_layout(layout: str) -> str:
    """*layout* without its blocks: ``NCHW`` for ``NCHW8c``."""
    return "".join(a.letter for a in parse_layout(layout) if not a.block)


@kernel("layout_transform")
def layout_transform(data: np.ndarray, *, src_layout: str, dst_layout: str) -> np.ndarray:
    """The elements in another order of axes: blocks are joined, axes permuted, blocks cut."""
    src, dst = parse_layout(src_layout), parse_layout(dst_layout)
    letters = [a.letter for a in dst if not a.block]
    order = [k for letter in letters for k in places_of(src, letter)]
    whole = [math.prod(data.shape[k] for k in places_of(src, letter)) for letter in letters]
    joined = np.transpose(data, order).reshape(whole)
    parts: list[int] = []
    sizes: list[int] = []
    for letter, size in zip(letters, whole, strict=True):
        places = places_of(dst, letter)
        parts += places
        sizes += [size // block_of(dst, letter), *(dst[k].block for k in places[1:])]
    return np.transpose(joined.reshape(sizes), np.argsort(parts)).copy()


@kernel("meshgrid")
def meshgrid(data: list[np.ndarray], *, indexing: str = "ij") -> tuple[np.ndarray, ...]:
    """Each vector spread over the grid that all of them span."""
    return tuple(np.meshgrid(*data, indexing=cast("Literal['ij', 'xy']", indexing)))
