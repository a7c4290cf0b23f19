"""Padding given in short, as one number for each side. Source: ``relay.op.nn.utils``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.relay.op.core.window import pad_pairs

Padding = int | Sequence[int]


def get_pad_tuple1d(padding: Padding) -> tuple[int, ...]:
    """(left, right) of a number, or of one or two of them. Raises UserError for another count."""
    return _sides(padding, 1)


def get_pad_tuple2d(padding: Padding) -> tuple[int, ...]:
    """(top, left, bottom, right) of a number, or of two or four of them. Raises UserError for another count."""
    return _sides(padding, 2)


def get_pad_tuple3d(padding: Padding) -> tuple[int, ...]:
    """(front, top, left, back, bottom, right) of a number, or of three or six. Raises UserError for another count."""
    return _sides(padding, 3)


def _sides(padding: Padding, n: int) -> tuple[int, ...]:
    given = (padding,) if isinstance(padding, int) else tuple(padding)
    pairs = pad_pairs(given, n)
    return (*(before for before, _ in pairs), *(after for _, after in pairs))
