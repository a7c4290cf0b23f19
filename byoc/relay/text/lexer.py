"""The tokens of the text format, and errors that show the place in the source.

Tokens are kept as three parallel lists, because a model of 100,000 calls has a million of them. ``/* … */`` comments
nest and are dropped, but for ``/* span=… */`` and ``/* name=… */``, which are tokens. Source: Relay's text format.
"""

from __future__ import annotations

import bisect
import re

from byoc.errors import ParseError
from byoc.ir.span import SourceName, Span

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_IDENT = r"[A-Za-z_][A-Za-z0-9_]*"
_NAME = rf"(?:{_IDENT}(?:\.{_IDENT})*|{_STRING})"
_TOKEN = re.compile(
    rf"""(?P<space>[ \t\r\n]+|//[^\n]*)
    |(?P<span>/\*[ ]*span=(?:{_STRING}|[^"*])*\*/)
    |(?P<hint>/\*[ ]*name={_STRING}[ ]*\*/)
    |(?P<comment>/\*)
    |(?P<pragma>\#\[)
    |(?P<string>{_STRING})
    |(?P<graph>%[0-9]+)
    |(?P<local>%{_NAME}(?:/{_IDENT}(?:\.{_IDENT})*)*(?:\#[0-9]+)?)
    |(?P<global>@{_NAME})
    |(?P<dim>\?(?:{_IDENT}|{_STRING})?)
    |(?P<projection>\.[0-9]+)
    |(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?:[fiu][0-9]*)?)
    |(?P<name>{_IDENT}(?:\.[A-Za-z0-9_]+)*)
    |(?P<mark>->|=>|==|!=|<=|>=|[()\[\]{{}},;:=+\-*/<>])""",
    re.VERBOSE | re.ASCII,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
END = "end"


class TextError(ParseError):
    """Text that cannot be read: *source_name*, *line* and *column* (from 1) say where."""

    def __init__(self, message: str, source_name: str, line: int, column: int, source_line: str):
        shown, at = _window(source_line, column)
        super().__init__(f"{source_name}:{line}:{column}: {message}\n  {shown}\n  {' ' * at}^")
        self.source_name, self.line, self.column = source_name, line, column


def _window(source_line: str, column: int, width: int = 100) -> tuple[str, int]:
    """At most *width* characters of a line around a column, and where the column is in them."""
    start = max(0, column - 1 - width // 2)
    return source_line[start : start + width].replace("\t", " "), column - 1 - start


class Tokens:
    """The tokens of *source*: ``kinds``, ``texts`` and ``starts``, closed by one of kind ``end``.

    Raises TextError for a character that starts no token and for a comment without an end.
    """

    def __init__(self, source: str, source_name: str):
        self.source, self.source_name = source, source_name
        self.kinds: list[str] = []
        self.texts: list[str] = []
        self.starts: list[int] = []
        self._lines: list[int] = []
        self._read()

    def _read(self) -> None:
        source, position, end = self.source, 0, len(self.source)
        match = _TOKEN.match
        while position < end:
            found = match(source, position)
            if found is None:
                raise self.error_at(position, self._why_not(position))
            kind = found.lastgroup or ""
            if kind == "comment":
                position = self._comment_end(position)
                continue
            if kind != "space":
                self.kinds.append(kind)
                self.texts.append(found.group())
                self.starts.append(position)
            position = found.end()
        self.kinds.append(END)
        self.texts.append("the end of the text")
        self.starts.append(end)

    def _why_not(self, position: int) -> str:
        char = self.source[position]
        if char == '"':
            return "this string does not end on its line"
        if char in "%@":
            return f'a name is expected after {char}: an identifier, or any text in quotes as in {char}"my name"'
        return f"unexpected character {char!r}"

    def _comment_end(self, start: int) -> int:
        depth = 0
        for edge in _COMMENT_EDGE.finditer(self.source, start):
            depth += 1 if edge.group() == "/*" else -1
            if depth == 0:
                return edge.end()
        raise self.error_at(start, "this comment has no end")

    def place(self, first: int, last: int) -> Span:
        """Where the tokens from *first* to *last* stand; lines and columns count from 1."""
        if not self._lines:
            self._lines = [0, *(m.end() for m in re.finditer("\n", self.source))]
        start, end = self.starts[first], self.starts[last] + len(self.texts[last])
        line, end_line = (bisect.bisect_right(self._lines, at) for at in (start, end))
        column, end_column = start - self._lines[line - 1] + 1, end - self._lines[end_line - 1] + 1
        return Span(SourceName(self.source_name), line, end_line, column, end_column)

    def error_at(self, position: int, message: str) -> TextError:
        """The error to raise about the character at *position*."""
        before = self.source[:position]
        line = before.count("\n") + 1
        start = before.rfind("\n") + 1
        end = self.source.find("\n", position)
        text = self.source[start : end if end >= 0 else len(self.source)]
        return TextError(message, self.source_name, line, position - start + 1, text)
