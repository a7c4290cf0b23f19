"""What a vendor's code raises, as a part of one sentence: whatever its text holds, and where it has none."""

from __future__ import annotations

from pathlib import Path

MOST_LETTERS = 400


def foreign_text(error: BaseException) -> str:
    """The class and the text of *error* in one line of printable letters; without a text, where it was raised.

    >>> foreign_text(RuntimeError("no such kernel\\n  in table 3"))
    'RuntimeError: no such kernel in table 3'
    """
    name = type(error).__name__
    try:
        text = str(error)
    except Exception:  # of its own __str__
        return f"{name}, whose text cannot be read{_place(error)}"
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: 4 * MOST_LETTERS]).split())
    if len(line) > MOST_LETTERS:
        line = f"{line[:MOST_LETTERS]} ..."
    return f"{name}: {line}" if line else f"{name}, which says nothing{_place(error)}"


def _place(error: BaseException) -> str:
    """The file and the line that raised *error*, in parentheses; nothing where it was not raised."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f" ({Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno})"
