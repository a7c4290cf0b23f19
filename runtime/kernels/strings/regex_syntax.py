"""Regular expressions as RE2 reads them, as trees. Source: https://github.com/google/re2/wiki/Syntax, Perl's flags on.

Python's ``re`` differs: there ``\\d``, ``\\w``, ``\\s`` and ``\\b`` know Unicode, ``$`` matches before a last newline,
and ``\\pL``, ``[[:alpha:]]``, ``\\Q...\\E``, ``\\z`` are unknown. What RE2 leaves out (back references, look-around) is
refused.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from byoc.runtime.kernels.strings.character_sets import (
    DIGITS,
    LAST,
    POSIX,
    SPACES,
    WORDS,
    CharacterSet,
    Range,
    complement,
    property_ranges,
)

MOST_REPEATS = 1000
MOST_GROUPS = 100  # inside of one another; RE2 takes 1000


class PatternError(ValueError):
    """A pattern that is none of RE2's; the message says where and why."""


class RegexPlace(enum.Enum):
    """What an assertion asks of the place between two characters."""

    TEXT_BEGIN = enum.auto()
    TEXT_END = enum.auto()
    LINE_BEGIN = enum.auto()
    LINE_END = enum.auto()
    BOUNDARY = enum.auto()
    NO_BOUNDARY = enum.auto()


@dataclass(frozen=True)
class Sequenced:
    """All of *parts*, one behind the other; none of them is the empty text."""

    parts: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Either:
    """One of *parts*."""

    parts: tuple[Node, ...]


@dataclass(frozen=True)
class Repeated:
    """*part*, *least* to *most* times (None: any number)."""

    part: Node
    least: int
    most: int | None


Node = CharacterSet | RegexPlace | Sequenced | Either | Repeated


@dataclass(frozen=True)
class _Flags:
    fold: bool = False  # i
    lines: bool = False  # m
    any_newline: bool = False  # s
    ungreedy: bool = False  # U, which changes nothing here


_FLAG_NAMES = {"i": "fold", "m": "lines", "s": "any_newline", "U": "ungreedy"}
_PERL = {"d": DIGITS, "s": SPACES, "w": WORDS}
_CONTROLS = {"a": "\a", "f": "\f", "t": "\t", "n": "\n", "r": "\r", "v": "\v"}


def parse(pattern: str) -> Node:
    """The tree of *pattern*. Raises PatternError for what RE2 does not take."""
    parser = _Parser(pattern)
    node, _ = parser.alternatives(_Flags(), 0)
    if parser.at < len(pattern):
        raise parser.error("a ) without its (")
    return node


class _Parser:
    def __init__(self, pattern: str):
        self.text, self.at = pattern, 0

    def error(self, what: str) -> PatternError:
        return PatternError(f"the pattern {self.text!r} has {what} at {self.at}; the syntax is RE2's")

    def takes(self, text: str) -> bool:
        """Whether *text* comes next; it is then behind us."""
        found = self.text.startswith(text, self.at)
        self.at += len(text) * found
        return found

    def next(self, what: str) -> str:
        if self.at >= len(self.text):
            raise self.error(f"no {what} where one is expected,")
        self.at += 1
        return self.text[self.at - 1]

    def alternatives(self, flags: _Flags, depth: int) -> tuple[Node, _Flags]:
        """Up to a ``)`` or the end; and the flags that hold then."""
        if depth > MOST_GROUPS:
            raise self.error("groups nested too deep")
        branches: list[list[Node]] = [[]]
        repeatable = False  # whether the last part may be repeated
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.takes("|"):
                branches.append([])
                repeatable = False
                continue
            bounds = self._repeat()
            if bounds is not None:
                if not repeatable:
                    raise self.error("a repetition of nothing, or of a repetition, before the place")
                self.takes("?")  # as few as possible, which makes no difference to whether a text matches
                branches[-1][-1] = Repeated(branches[-1][-1], *bounds)
                repeatable = False
                continue
            parts, flags, repeatable = self._atom(flags, depth)
            branches[-1] += parts
        nodes = [parts[0] if len(parts) == 1 else Sequenced(tuple(parts)) for parts in branches]
        return (nodes[0] if len(nodes) == 1 else Either(tuple(nodes))), flags

    def _repeat(self) -> tuple[int, int | None] | None:
        """The bounds of a repetition, if one comes next."""
        for sign, bounds in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self.takes(sign):
                return bounds
        if not self.text.startswith("{", self.at):
            return None
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : max(end, self.at)].partition(",")
        if end < 0 or not _is_number(least) or (most and not _is_number(most)):
            return None  # a brace like any other character
        first = int(least)
        last = first if not comma else int(most) if most else None
        if max(first, last or 0) > MOST_REPEATS or (last is not None and last < first):
            raise self.error(f"a repetition beyond 0 to {MOST_REPEATS}, or with its bounds exchanged,")
        self.at = end + 1
        return first, last

    def _atom(self, flags: _Flags, depth: int) -> tuple[list[Node], _Flags, bool]:
        """What comes next: its parts, the flags that hold behind it, and whether it may be repeated."""
        if self.takes("("):
            return self._group(flags, depth)
        if self.takes("["):
            return [self._class(flags)], flags, True
        if self.takes("."):
            ranges = ((0, LAST),) if flags.any_newline else complement([(10, 10)])
            return [CharacterSet(tuple(ranges))], flags, True
        if self.takes("^"):
            return [RegexPlace.LINE_BEGIN if flags.lines else RegexPlace.TEXT_BEGIN], flags, True
        if self.takes("$"):
            return [RegexPlace.LINE_END if flags.lines else RegexPlace.TEXT_END], flags, True
        if self.takes("\\Q"):
            literal, _, rest = self.text[self.at :].partition("\\E")
            self.at = len(self.text) - len(rest)
            return [_character(c, flags) for c in literal], flags, bool(literal)
        if self.takes("\\"):
            return [self._escape(flags)], flags, True
        return [_character(self.next("character"), flags)], flags, True

    def _group(self, flags: _Flags, depth: int) -> tuple[list[Node], _Flags, bool]:
        inner = flags
        if self.takes("?P<") or (self.text[self.at : self.at + 3] not in ("?<=", "?<!") and self.takes("?<")):
            name, closed, _ = self.text[self.at :].partition(">")
            if not closed or not name.isidentifier():
                raise self.error("no name of a group")
            self.at += len(name) + 1
        elif self.takes("?"):
            found = self._set_flags(flags)
            if self.takes(")"):
                return [], found, False
            if not self.takes(":"):
                raise self.error("a group that RE2 does not have")
            inner = found
        node, _ = self.alternatives(inner, depth + 1)
        if not self.takes(")"):
            raise self.error("a ( without its )")
        return [node], flags, True

    def _set_flags(self, flags: _Flags) -> _Flags:
        values = dict(vars(flags))
        to, start = True, self.at
        while self.at < len(self.text) and self.text[self.at] not in ":)":
            sign = self.next("flag")
            if sign == "-" and to and self.text[self.at : self.at + 1] not in ("", ":", ")"):
                to = False
            elif sign in _FLAG_NAMES:
                values[_FLAG_NAMES[sign]] = to
            else:
                self.at = start
                raise self.error("a group that RE2 does not have (look-around, conditions, comments)")
        return _Flags(**values)

    def _escape(self, flags: _Flags) -> Node:
        """What stands behind a backslash, outside of a class."""
        places = {
            "A": RegexPlace.TEXT_BEGIN,
            "z": RegexPlace.TEXT_END,
            "b": RegexPlace.BOUNDARY,
            "B": RegexPlace.NO_BOUNDARY,
        }
        if self.text[self.at : self.at + 1] in places:
            return places[self.next("escape")]
        ranges = self._class_escape()
        if ranges is not None:
            return CharacterSet(tuple(ranges), fold=flags.fold)
        return _character(self._one(), flags)

    def _class_escape(self) -> Sequence[Range] | None:
        """The characters of ``\\d``, ``\\pL`` and the like, if one comes next."""
        letter = self.text[self.at : self.at + 1]
        if letter.lower() in _PERL and letter:
            self.at += 1
            return _PERL[letter] if letter.islower() else complement(_PERL[letter.lower()])
        if letter not in ("p", "P"):
            return None
        self.at += 1
        name = self.next("property")
        if name == "{":
            name, closed, _ = self.text[self.at :].partition("}")
            self.at += len(name) + 1
            if not closed:
                raise self.error("a property without its }")
        negative = (letter == "P") != name.startswith("^")
        found = property_ranges(name.removeprefix("^"))
        if found is None:
            raise self.error(f"the property {name!r}, where only general categories (L, Lu, Nd, ...) are supported,")
        return complement(found) if negative else found

    def _one(self) -> str:
        """The one character that stands behind a backslash."""
        letter = self.next("escape")
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            if self.takes("{"):
                digits, closed, _ = self.text[self.at :].partition("}")
                self.at += len(digits) + 1
            else:
                digits, closed = self.text[self.at : self.at + 2], "}"
                self.at += 2
                if len(digits) != 2:
                    raise self.error("no two digits of a hexadecimal number before the place")
            return self._code(digits, 16, bool(closed))
        if letter in "01234567":
            end = self.at
            while end < self.at + 2 and self.text[end : end + 1] in tuple("01234567"):
                end += 1
            if letter != "0" and end == self.at:
                raise self.error("a back reference, which RE2 does not have,")
            digits, self.at = letter + self.text[self.at : end], end
            return self._code(digits, 8, True)
        if letter.isascii() and not letter.isalnum():
            return letter
        raise self.error(f"the escape \\{letter}, which RE2 does not have,")

    def _code(self, digits: str, base: int, is_closed: bool) -> str:
        allowed = "0123456789abcdefABCDEF" if base == 16 else "01234567"
        if not is_closed or not digits or any(d not in allowed for d in digits) or int(digits, base) > LAST:
            raise self.error("no number of a character before the place")
        return chr(int(digits, base))

    def _class(self, flags: _Flags) -> CharacterSet:
        """The characters between brackets."""
        negated, first = self.takes("^"), True
        ranges: list[Range] = []
        while first or not self.takes("]"):
            if self.at >= len(self.text):
                raise self.error("a [ without its ]")
            first = False
            named = self._posix()
            if named is None and self.text.startswith("\\", self.at):
                self.at += 1
                named = self._class_escape()
                self.at -= named is None
            if named is not None:
                ranges += named
                continue
            low = self._class_character()
            high = low
            if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self._class_character()
            if high < low:
                raise self.error(f"the range {low}-{high}, which is none, before the place")
            ranges.append((ord(low), ord(high)))
        return CharacterSet(tuple(ranges), negated, flags.fold)

    def _posix(self) -> Sequence[Range] | None:
        if not self.text.startswith("[:", self.at):
            return None
        end = self.text.find(":]", self.at + 2)
        if end < 0:
            return None
        name = self.text[self.at + 2 : end]
        if name.removeprefix("^") not in POSIX:
            raise self.error(f"the class [:{name}:], which there is not,")
        self.at = end + 2
        found = POSIX[name.removeprefix("^")]
        return complement(found) if name.startswith("^") else found

    def _class_character(self) -> str:
        return self._one() if self.takes("\\") else self.next("character of a class")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _character(letter: str, flags: _Flags) -> CharacterSet:
    return CharacterSet(((ord(letter), ord(letter)),), fold=flags.fold)
