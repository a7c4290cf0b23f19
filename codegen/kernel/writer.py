"""The text of emitted functions: blocks that indent, and identifiers made from the model's names."""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator
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


LONGEST = 48


def identifier(text: str) -> str:
    """*text* as a C identifier: ASCII letters, digits and underscores, not starting with a digit."""
    word = re.sub(r"[^A-Za-z0-9_]+", "_", text)[:LONGEST].strip("_") or "x"
    return f"x{word}" if word[0].isdigit() else word


def comment_text(text: str) -> str:
    """*text* so that it can stand in a comment of one line: printable ASCII without what ends or nests comments."""
    shown = "".join(c if " " <= c <= "~" and c != "\\" else f"<{ord(c):x}>" for c in text)
    return shown.replace("*/", "* /").replace("/*", "/ *").replace("??", "? ?")


class Names:
    """Unique identifiers for objects; the same object always has the same one."""

    def __init__(self, reserved: Collection[str]):
        self._taken = set(reserved)
        self._of: dict[Hashable, str] = {}

    def __call__(self, thing: Hashable, hint: str) -> str:
        """The name of *thing*, made from *hint* when it is first asked for."""
        if thing not in self._of:
            self._of[thing] = self.fresh(hint)
        return self._of[thing]

    def release(self, thing: Hashable) -> None:
        """Forget *thing*, whose scope has ended, so that its name can be used again."""
        self._taken.discard(self._of.pop(thing, ""))

    def reserve(self, name: str) -> None:
        """Give *name* to nothing else."""
        self._taken.add(name)

    def fresh(self, hint: str) -> str:
        """A name that nothing has."""
        base = identifier(hint)
        name, k = base, 0
        while name in self._taken:
            k += 1
            name = f"{base}_{k}"
        self._taken.add(name)
        return name
