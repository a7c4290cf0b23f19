"""How a slow piece of work says what it does next: a function that is called with each step, in words."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], object]


def silent(step: str) -> None:
    """Progress that nobody watches."""
