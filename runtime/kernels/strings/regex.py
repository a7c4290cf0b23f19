"""RE2's regular expressions by automata: time grows with the text alone, whatever the pattern.

A state is a set of places in the program; states and the steps between them are made when a text needs them, and kept.
Which of several matches is preferred does not matter: the whole of a text matches or does not, and a match that is
looked for is the longest of the leftmost. Source: Russ Cox, *Regular Expression Matching: the Virtual Machine Approach*
and *in the Wild*.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

from byoc.runtime.kernels.strings.character_sets import CharacterSet
from byoc.runtime.kernels.strings.regex_syntax import Either, Node, PatternError, RegexPlace, Repeated, Sequenced, parse

MOST_INSTRUCTIONS = 50_000
MOST_STATES = 10_000  # kept, before all are forgotten


@dataclass(frozen=True)
class _Fork:
    places: tuple[int, ...]


@dataclass(frozen=True)
class _Step:
    test: CharacterSet | RegexPlace
    following: int


_MATCH = 0  # the place in a program where a match is found
_Instruction = _Fork | _Step | None


class _Program:
    """Instructions, made from the end of the pattern to its begin."""

    def __init__(self, pattern: str):
        self.pattern = pattern
        self.code: list[_Instruction] = [None]
        self.start = self._enter(parse(pattern), _MATCH)
        self.has_places = any(isinstance(step, _Step) and isinstance(step.test, RegexPlace) for step in self.code)

    def _put(self, instruction: _Instruction) -> int:
        if len(self.code) >= MOST_INSTRUCTIONS:
            raise PatternError(f"the pattern {self.pattern!r} is too large: its repetitions are too many")
        self.code.append(instruction)
        return len(self.code) - 1

    def _enter(self, node: Node, following: int) -> int:
        """The place where *node* begins, which goes on at *following*."""
        if isinstance(node, (CharacterSet, RegexPlace)):
            return self._put(_Step(node, following))
        if isinstance(node, Sequenced):
            for part in reversed(node.parts):
                following = self._enter(part, following)
            return following
        if isinstance(node, Either):
            return self._put(_Fork(tuple(self._enter(part, following) for part in node.parts)))
        return self._repeat(node, following)

    def _repeat(self, node: Repeated, following: int) -> int:
        copies = node.least
        if node.most is None:  # the last copy leads back to itself
            loop = self._put(None)
            begin = self._enter(node.part, loop)
            self.code[loop] = _Fork((begin, following))
            following = begin if copies else self._put(_Fork((begin, following)))
            copies = max(copies - 1, 0)
        else:
            end = following
            for _ in range(node.most - copies):
                following = self._put(_Fork((self._enter(node.part, following), end)))
        for _ in range(copies):
            following = self._enter(node.part, following)
        return following


@dataclass(eq=False)
class _State:
    """Places in the program, with the states that follow: by what is around, then by the character that is read."""

    places: tuple[int, ...]
    around: dict[frozenset[RegexPlace], _State] = field(default_factory=dict)
    after: dict[str, _State] = field(default_factory=dict)


class Regex:
    """A pattern in RE2's syntax.

    Raises PatternError for one that RE2 does not take.

    >>> Regex(r"[\\w.]+@\\w+").matches("a.b@c"), Regex("a|ab").find("xab", 0)
    (True, (1, 3))
    """

    def __init__(self, pattern: str):
        self._program = _Program(pattern)
        self._states: dict[tuple[int, ...], _State] = {}

    def matches(self, text: str) -> bool:
        """Whether the pattern matches the whole of *text*."""
        state = self._state((self._program.start,))
        for place, letter in enumerate(text):
            state = self._step(self._closed(state, text, place), letter)
            if not state.places:
                return False
        return _MATCH in self._closed(state, text, len(text)).places

    def find(self, text: str, start: int) -> tuple[int, int] | None:
        """Where the first match at or behind *start* begins and ends: of equal begins the longest."""
        for begin in range(start, len(text) + 1):
            end = self._end(text, begin)
            if end is not None:
                return begin, end
        return None

    def _end(self, text: str, begin: int) -> int | None:
        state, found = self._state((self._program.start,)), None
        for place in range(begin, len(text) + 1):
            closed = self._closed(state, text, place)
            if _MATCH in closed.places:
                found = place
            if not closed.places or place == len(text):
                break
            state = self._step(closed, text[place])
        return found

    def _state(self, places: tuple[int, ...]) -> _State:
        found = self._states.get(places)
        if found is None:
            if len(self._states) >= MOST_STATES:
                self._states = {}
            found = self._states[places] = _State(places)
        return found

    def _step(self, state: _State, letter: str) -> _State:
        found = state.after.get(letter)
        if found is None:
            code = self._program.code
            steps = [code[place] for place in state.places]
            tests = [(s.test, s.following) for s in steps if isinstance(s, _Step)]
            following = [to for test, to in tests if isinstance(test, CharacterSet) and letter in test]
            found = state.after[letter] = self._state(tuple(sorted(set(following))))
        return found

    def _closed(self, state: _State, text: str, place: int) -> _State:
        """*state* with what needs no character done: places that read one, or match."""
        holds = _holding(text, place) if self._program.has_places else frozenset()
        found = state.around.get(holds)
        if found is None:
            found = state.around[holds] = self._state(self._closure(state.places, holds))
        return found

    def _closure(self, places: tuple[int, ...], holds: frozenset[RegexPlace]) -> tuple[int, ...]:
        seen: set[int] = set()
        kept: list[int] = []
        waiting = list(reversed(places))
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            step = self._program.code[place]
            if isinstance(step, _Fork):
                waiting += reversed(step.places)
            elif isinstance(step, _Step) and isinstance(step.test, RegexPlace):
                waiting += [step.following] if step.test in holds else []
            else:
                kept.append(place)
        return tuple(sorted(kept))


def _holding(text: str, place: int) -> frozenset[RegexPlace]:
    """Which assertions hold before character *place*."""
    before, behind = text[place - 1 : place] if place else "", text[place : place + 1]
    boundary = _is_word(before) != _is_word(behind)
    found = [RegexPlace.BOUNDARY if boundary else RegexPlace.NO_BOUNDARY]
    found += [RegexPlace.TEXT_BEGIN] if place == 0 else []
    found += [RegexPlace.TEXT_END] if place == len(text) else []
    found += [RegexPlace.LINE_BEGIN] if before in ("", "\n") else []
    found += [RegexPlace.LINE_END] if behind in ("", "\n") else []
    return frozenset(found)


def _is_word(letter: str) -> bool:
    return letter.isascii() and (letter.isalnum() or letter == "_")


@functools.lru_cache(maxsize=64)
def regex_of(pattern: str) -> Regex:
    """The regular expression of *pattern*, kept. Raises PatternError."""
    return Regex(pattern)
