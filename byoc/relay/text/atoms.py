"""The parser's lowest part: a cursor over tokens, and the readers of attribute values, literals and spans.

Types and attribute values nest at most 200 deep. Source: Relay's text format 0.0.5.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeVar

import numpy as np

from byoc.errors import UserError
from byoc.ir.span import AnySpan, SequentialSpan, SourceName, Span
from byoc.relay.text.lexer import END, TextError, Tokens
from byoc.relay.text.spelling import LITERAL_SUFFIX
from byoc.runtime.core.ndarray import NDArray

_SUFFIX_DTYPE = {suffix: dtype for dtype, suffix in LITERAL_SUFFIX.items()} | {
    "f32": "float32",
    "i32": "int32",
    "i": "int32",
    "u": "uint32",
}
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)(.*)")
_PLACE = re.compile(r'("(?:[^"\\\n]|\\.)*"|[^:"+ ]+)((?::[0-9]+)*)')
_MAX_NESTING = 200


def nearest(name: str, known: Collection[str]) -> str:
    """``; did you mean a, b?`` with the known names closest to *name*, or all when there are few."""
    if len(known) > 2000:
        return ""
    near = difflib.get_close_matches(name, sorted(known), n=3, cutoff=0.5)
    if near:
        return f"; did you mean {', '.join(near)}?"
    return f"; known: {', '.join(sorted(known)[:12])}" if 0 < len(known) <= 12 else ""


T = TypeVar("T")


class AtomReader:
    """A cursor over *tokens*; *meta* are the tables behind ``meta[name][i]``."""

    def __init__(self, tokens: Tokens, meta: Mapping[str, Sequence[object]]):
        self._tokens = tokens
        self._kinds, self._texts = tokens.kinds, tokens.texts
        self._at = 0
        self._meta = meta
        self._nesting = 0

    # the cursor ---------------------------------------------------------------------------------------------------

    def error(self, message: str, at: int | None = None) -> TextError:
        """The error to raise about the token *at*, by default the next one."""
        return self._tokens.error_at(self._tokens.starts[self._at if at is None else at], message)

    def expected(self, what: str) -> TextError:
        """The error to raise when the next token is not *what* must stand there."""
        found = self._texts[self._at]
        return self.error(f"expected {what}, found {found if self._kinds[self._at] == END else repr(found)}")

    def next_is(self, text: str) -> bool:
        """True when the next token is the mark or name *text*."""
        return self._texts[self._at] == text and self._kinds[self._at] in ("mark", "name", "pragma")

    def skip(self, text: str) -> bool:
        """Step over *text* if it is next; says whether it was."""
        if self.next_is(text):
            self._at += 1
            return True
        return False

    def take(self, text: str) -> None:
        """Step over *text*. Raises TextError when something else is next."""
        if not self.skip(text):
            raise self.expected(repr(text))

    def take_kind(self, kind: str, what: str) -> str:
        """The text of the next token, of that kind. Raises TextError naming *what* is expected otherwise."""
        if self._kinds[self._at] != kind:
            raise self.expected(what)
        self._at += 1
        return self._texts[self._at - 1]

    def unquoted(self, text: str, at: int | None = None) -> str:
        """The string that the token text *text* stands for. Raises TextError for a wrong escape."""
        if not text.startswith('"'):
            return text
        try:
            return str(json.loads(text))
        except ValueError as error:
            raise self.error(f"not a valid string: {error}", self._at - 1 if at is None else at) from error

    def listed(self, close: str, item: Callable[[], T]) -> tuple[list[T], bool]:
        """Items separated by commas up to *close*; the second result says whether a comma trails."""
        items: list[T] = []
        trailing = False
        while not self.skip(close):
            items.append(item())
            trailing = self.skip(",")
            if not trailing and not self.next_is(close):
                raise self.expected(f"',' or {close!r}")
        return items, trailing

    def _nested(self, read: Callable[[], T]) -> T:
        self._nesting += 1
        if self._nesting > _MAX_NESTING:
            raise self.error(f"types and attribute values nest at most {_MAX_NESTING} deep")
        try:
            return read()
        finally:
            self._nesting -= 1

    # spans --------------------------------------------------------------------------------------------------------

    def span(self) -> AnySpan | None:
        """The span comment that is next, or None."""
        if self._kinds[self._at] != "span":
            return None
        text = self._texts[self._at]
        content = text[text.index("=") + 1 : -2].strip()
        self._at += 1
        spans = []
        position = 0
        while True:
            match = _PLACE.match(content, position)
            numbers = [int(n) for n in match.group(2).split(":")[1:]] if match is not None else []
            if match is None or len(numbers) not in (0, 2, 4):
                raise self.error(
                    f"not a span: {content!r}; expected name, name:line:column or a quoted name", self._at - 1
                )
            if len(numbers) == 2:
                numbers = [numbers[0], 0, numbers[1], 0]
            name = self.unquoted(match.group(1))
            spans.append(Span(SourceName(name) if name else None, *numbers))
            position = match.end()
            if position == len(content):
                return spans[0] if len(spans) == 1 else SequentialSpan(tuple(spans))
            if content[position : position + 3] != " + ":
                raise self.error(f"not a span: {content!r}; places are joined by ' + '", self._at - 1)
            position += 3

    # literals and attribute values --------------------------------------------------------------------------------

    def _take_number(self) -> tuple[str, str]:
        """The digits of the number that is next, and its ending."""
        found = _NUMBER.fullmatch(self.take_kind("number", "a number"))
        assert found is not None  # the lexer knows no other numbers
        return found[1], found[2]

    def scalar(self) -> NDArray:
        """A number or boolean as a 0-d array; a whole number without an ending is int32 where it fits, else int64.

        Raises TextError when it does not fit its dtype.
        """
        at = self._at
        if self.next_is("True") or self.next_is("False"):
            self._at += 1
            return NDArray(np.asarray(self._texts[at] == "True"))
        sign = ""
        while self.skip("-"):
            sign = "" if sign else "-"
        digits, suffix = self._take_number()
        if suffix not in _SUFFIX_DTYPE:
            known = ", ".join(s for s in _SUFFIX_DTYPE if s)
            raise self.error(f"unknown ending {suffix!r} of a number; known: {known}", at)
        dtype = "float32" if not suffix and not digits.isdigit() else _SUFFIX_DTYPE[suffix]
        if dtype.startswith("float"):
            return NDArray(self._floating(sign + digits, dtype, at))
        if not digits.isdigit():
            raise self.error(f"{digits} is not a whole number, as {dtype} needs", at)
        value, limits = int(sign + digits), np.iinfo(dtype)
        if not suffix and not limits.min <= value <= limits.max:
            dtype, limits = "int64", np.iinfo("int64")
        if not limits.min <= value <= limits.max:
            raise self.error(f"{value} does not fit {dtype}", at)
        return NDArray(np.asarray(value, dtype))

    def _floating(self, text: str, dtype: str, at: int) -> np.ndarray:
        if abs(float(text)) > float(np.finfo(dtype).max):
            raise self.error(f"{text} does not fit {dtype}", at)
        return np.asarray(text, dtype)

    def meta_entry(self) -> object:
        """``meta[relay.Constant][0]``, after ``meta``. Raises TextError when no such thing is given."""
        at = self._at - 1
        self.take("[")
        key = self.take_kind("name", "a table of the metadata section, such as relay.Constant")
        self.take("]")
        self.take("[")
        index = self.take_kind("number", "a number")
        self.take("]")
        rows = self._meta.get(key, [])
        if not index.isdigit() or int(index) >= len(rows):
            raise self.error(
                f"meta[{key}][{index}] is not in the metadata, which has {len(rows)} of {key}; a text printed without "
                "its metadata cannot be read back",
                at,
            )
        return rows[int(index)]

    def value(self) -> object:
        """The value of an attribute: a number, a string, True, False, None, ``[…]`` or ``{"key": …}``."""
        return self._nested(self._value)

    def _value(self) -> object:
        kind, text = self._kinds[self._at], self._texts[self._at]
        if kind == "string":
            self._at += 1
            return self.unquoted(text)
        if kind == "number" or text == "-":
            return self._number()
        if text in _NAMED_VALUES and kind == "name":
            self._at += 1
            return _NAMED_VALUES[text]
        if self.skip("["):
            return tuple(self.listed("]", self.value)[0])
        if self.skip("meta"):
            return self.meta_entry()
        if self.skip("("):
            if self.skip("nullptr"):
                self.take(")")
                return None
            return tuple(self.listed(")", self.value)[0])
        if self.skip("{"):
            return dict(self.listed("}", self._entry)[0])
        raise self.expected("the value of an attribute: a number, a string in quotes, True, False, None or a list")

    def _number(self) -> int | float:
        sign = "-" if self.skip("-") else ""
        if self._texts[self._at] in ("inf", "nan"):
            self._at += 1
            return float(sign + self._texts[self._at - 1])
        digits, suffix = self._take_number()
        if suffix not in _SUFFIX_DTYPE:
            raise self.error(f"unknown ending {suffix!r} of a number", self._at - 1)
        whole = digits.isdigit() and not suffix.startswith("f")
        return int(sign + digits) if whole else float(sign + digits)

    def _entry(self) -> tuple[str, object]:
        key = self.unquoted(self.take_kind("string", "a key in quotes"))
        self.take(":")
        return key, self.value()

    def checked(self, make: Callable[[], T], at: int) -> T:
        """``make()``, with a UserError turned into a TextError about the token *at*."""
        try:
            return make()
        except TextError:
            raise
        except UserError as error:
            raise self.error(str(error), at) from error


_NAMED_VALUES = {"True": True, "False": False, "None": None, "inf": float("inf"), "nan": float("nan")}
