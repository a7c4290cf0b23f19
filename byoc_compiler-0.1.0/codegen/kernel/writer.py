"""A writer of nested text: blocks indent, nobody counts spaces."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

INDENT = "  "


class Writer:
    """Lines of text at the indentation of the open blocks.

    >>> w = Writer()
    >>> with w.block("if (x) {", "}"):
    ...     w.line("y();")
    >>> print(w.text(), end="")
    if (x) {
      y();
    }
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def line(self, text: str = "") -> None:
        """One line, or an empty one."""
        self._lines.append(INDENT * self._depth + text if text else "")

    def lines(self, text: str) -> None:
        """Several lines, kept as they are under the current indentation."""
        for line in text.splitlines():
            self.line(line)

    @contextmanager
    def block(self, opening: str, closing: str = "}") -> Iterator[None]:
        """What is written inside stands between *opening* and *closing*, one level deeper."""
        self.line(opening)
        self._depth += 1
        yield
        self._depth -= 1
        self.line(closing)

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"
