"""How much is padded on each side of each spatial axis, as TVM's references take it. Source: ``get_pad_tuple``."""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import UserError

Ints = int | Sequence[int]
Padding = int | str | Sequence[int]


def per_axis(value: Ints, n: int) -> tuple[int, ...]:
    """*value* as *n* ints. Raises UserError for another number of them."""
    sizes = (int(value),) * n if isinstance(value, int) else tuple(int(v) for v in value)
    if len(sizes) != n:
        raise UserError(f"{n} numbers are needed, one for each axis, got {sizes}")
    return sizes


def both_sides(padding: Padding, kernel: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """The padding (before, after) of each axis: from a number, one a side or axis, ``"VALID"`` or ``"SAME"``.

    *kernel* is the extent of the window with its dilation. Raises UserError for another word or number of numbers.
    """
    n = len(kernel)
    if isinstance(padding, str):
        if padding not in ("VALID", "SAME"):
            raise UserError(f"padding is numbers, VALID or SAME, got {padding!r}")
        totals = [(k - 1) * (padding == "SAME") for k in kernel]
        return tuple(((total + 1) // 2, total // 2) for total in totals)
    if isinstance(padding, int) or len(padding) == n:
        return tuple((p, p) for p in per_axis(padding, n))
    sides = per_axis(padding, 2 * n)
    return tuple(zip(sides[:n], sides[n:], strict=True))
