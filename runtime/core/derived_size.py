"""Sizes that follow from named ones: ``4*N``, ``past+1``, ``min(N, 512)``, ``(H+1)//2``.

Such a size has a name too: its expression in one canonical form, in parentheses, so that two sizes that are computed
alike have one name, and everything that knows names of dimensions knows it. ``(4*N)`` is 32 where N is 8.

An expression is a polynomial with integer coefficients, whose atoms are names, the functions ``div`` (rounded down),
``trunc`` (divided and rounded towards 0), ``min``, ``max`` and ``broadcast`` of two polynomials or more, and ``window``
of one, which is that where it is at least 1 and refuses the inputs where it is not. ``broadcast`` is the larger, but of
0 and 1 it is 0. A name that is no identifier stands in it as a JSON string.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from byoc.runtime.core.errors import ArtifactError

Term = tuple[str, ...]  # atoms, sorted; one that stands twice is squared
MOST_LETTERS = 4096  # of an expression
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
_TOKEN = re.compile(r'\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_][A-Za-z0-9_.]*|"(?:[^"\\]|\\.)*")|(?P<mark>[-+*(),]))')
FUNCTIONS: dict[str, Callable[..., int]] = {
    "div": lambda a, b: a // b,
    "trunc": lambda a, b: a // b if a >= 0 else -(-a // b),
    "min": min,
    "max": max,
    "broadcast": lambda *sizes: 0 if 0 in sizes and max(sizes) == 1 else max(sizes),
    "window": int,
}
_ARITY = {"div": 2, "trunc": 2, "window": 1}  # of the others two or more
OTHER = {"min": "max", "max": "min"}


class SizePolynomial:
    """Sums of products of atoms; equal where the canonical texts are."""

    __slots__ = ("terms",)

    def __init__(self, terms: Mapping[Term, int]):
        self.terms = {term: count for term, count in terms.items() if count}

    @property
    def number(self) -> int | None:
        """The number that it is; None where it has atoms."""
        return self.terms.get((), 0) if set(self.terms) <= {()} else None

    def __add__(self, other: SizePolynomial) -> SizePolynomial:
        return SizePolynomial({t: self.terms.get(t, 0) + other.terms.get(t, 0) for t in (*self.terms, *other.terms)})

    def __mul__(self, other: SizePolynomial) -> SizePolynomial:
        found: dict[Term, int] = {}
        for one, m in self.terms.items():
            for two, n in other.terms.items():
                term = tuple(sorted((*one, *two)))
                found[term] = found.get(term, 0) + m * n
        return SizePolynomial(found)

    def __neg__(self) -> SizePolynomial:
        return SizePolynomial({t: -c for t, c in self.terms.items()})

    def __str__(self) -> str:
        if not self.terms:
            return "0"
        ordered = sorted(self.terms.items(), key=lambda item: (not item[0], len(item[0]), item[0]))  # numbers last
        text = "".join(f"{'-' if c < 0 else '+'}{_term_text(t, abs(c))}" for t, c in ordered)
        return text.removeprefix("+")


def _term_text(term: Term, count: int) -> str:
    return "*".join(([str(count)] if count != 1 or not term else []) + list(term))


def is_derived(name: str) -> bool:
    """Whether a dimension's name is the expression of a derived size."""
    return name.startswith("(") and name.endswith(")")


def name_of(size: SizePolynomial) -> str:
    """The name of a derived size, or the plain name where it is one."""
    if len(size.terms) == 1:
        ((term, count),) = size.terms.items()
        if count == 1 and len(term) == 1 and not term[0].endswith(")"):
            return str(json.loads(term[0])) if term[0].startswith('"') else term[0]
    return f"({size})"


@functools.cache
def polynomial(size: int | str) -> SizePolynomial:
    """A number, or the size of a name, as a polynomial. Raises ArtifactError for a derived name that nothing wrote."""
    if isinstance(size, int):
        return SizePolynomial({(): int(size)})
    if is_derived(size):
        return _Reader(size[1:-1]).read()
    return SizePolynomial({(plain_atom(size),): 1})


def plain_atom(name: str) -> str:
    """The atom of a plain name."""
    return name if _IDENTIFIER.match(name) and name not in FUNCTIONS else json.dumps(name)


def quotient(a: SizePolynomial, b: int) -> SizePolynomial:
    """``a // b`` for a positive *b*: of each count what divides by it is divided, the rest stays under ``div``.

    A quotient of a quotient is one: ``(a//4 + k) // 2`` is ``(a + 4*k) // 8``.
    """
    whole = SizePolynomial({term: count // b for term, count in a.terms.items()})
    rest = SizePolynomial({term: count % b for term, count in a.terms.items()})
    if rest.number is not None:  # less than b
        return whole
    inner = only_atom(SizePolynomial({term: count for term, count in rest.terms.items() if term}))
    if inner is not None and inner[0] == "div":
        size, by = inner[1]
        assert by.number is not None
        return whole + quotient(size + SizePolynomial({(): rest.terms.get((), 0) * by.number}), by.number * b)
    return whole + SizePolynomial({(f"div({rest},{b})",): 1})


def truncated(a: SizePolynomial, b: int) -> SizePolynomial:
    """``a`` by a positive *b*, rounded towards 0 as ONNX's ``Div`` does; rounded down where *a* is never negative.

    Where each count divides by *b* there is nothing to round.
    """
    is_exact = all(count % b == 0 for count in a.terms.values())
    return quotient(a, b) if is_exact or is_never_negative(a) else SizePolynomial({(f"trunc({a},{b})",): 1})


def extreme(function: str, *sizes: SizePolynomial) -> SizePolynomial:
    """``min`` or ``max`` of sizes: each that is not beside another that it is never less, or more, than."""
    flat: list[SizePolynomial] = []
    for size in _without_covered(function, sizes):
        atom = only_atom(size)
        flat += atom[1] if atom is not None and atom[0] == function else [size]
    kept = _without_covered(function, flat)
    if len(kept) == 1:
        return kept[0]
    return SizePolynomial({(f"{function}({','.join(sorted(map(str, kept)))})",): 1})


def _without_covered(function: str, sizes: Iterable[SizePolynomial]) -> list[SizePolynomial]:
    kept: list[SizePolynomial] = []
    for size in sizes:
        if not any(_covers(function, other, size) for other in kept):
            kept = [other for other in kept if not _covers(function, size, other)] + [size]
    return kept


def _covers(function: str, one: SizePolynomial, two: SizePolynomial) -> bool:
    """Whether the *function* of both is always *one*."""
    difference = (one + -two).number
    if difference is not None:
        return (difference <= 0) == (function == "min") or difference == 0
    larger, smaller = (one, two) if function == "max" else (two, one)
    if is_never_negative(larger + -smaller):
        return True
    if function == "max" and two.number is not None and two.number <= 0 and is_never_negative(one):
        return True
    inner = only_atom(two)  # the larger of x and of what is at most x
    return inner is not None and inner[0] == OTHER.get(function) and str(one) in map(str, inner[1])


def broadcast(*sizes: SizePolynomial) -> SizePolynomial:
    """The size of axes of these *sizes* that are broadcast together."""
    flat: dict[str, SizePolynomial] = {}
    for size in sizes:
        atom = only_atom(size)
        flat |= {str(part): part for part in (atom[1] if atom is not None and atom[0] == "broadcast" else [size])}
    kept = [size for size in flat.values() if not any(_fits(size, other) for other in flat.values())]
    if len(kept) == 1:
        return kept[0]
    if all(map(_is_positive, kept)):
        return extreme("max", *kept)
    return SizePolynomial({(f"broadcast({','.join(sorted(map(str, kept)))})",): 1})


def _fits(size: SizePolynomial, other: SizePolynomial) -> bool:
    """Whether *size* can be broadcast to *other* alone: ``1``, ``max(1,other)``, ``min(512,other)``."""
    if str(size) in ("1", str(other)):
        return str(size) != str(other)
    atom = only_atom(size)
    if atom is None or atom[0] not in OTHER:
        return False
    rest = [part for part in atom[1] if str(part) != str(other)]
    if len(rest) == len(atom[1]):
        return False
    return all(map(_is_positive, rest)) if atom[0] == "min" else [str(part) for part in rest] == ["1"]


def _is_positive(size: SizePolynomial) -> bool:
    atom = only_atom(size)
    parts = atom[1] if atom is not None and atom[0] == "max" else [size]
    return any(is_never_negative(part + polynomial(-1)) for part in parts)


def is_never_negative(size: SizePolynomial) -> bool:
    """Whether *size* cannot be negative, since no size of a name is."""
    if all(count > 0 and all(map(_is_size, term)) if term else count >= 0 for term, count in size.terms.items()):
        return True
    bound = _without_quotient(size)
    return bound is not None and is_never_negative(bound)


def _without_quotient(size: SizePolynomial) -> SizePolynomial | None:
    """No more than a multiple of *size*, without one of its quotients; None where it has none.

    ``b*div(a,b)`` is at most *a* and at least ``a-b+1``, so that ``H-4*div(H,4)`` and ``4-(H-4*div(H,4))`` are sizes.
    """
    for term, count in sorted(size.terms.items(), key=lambda item: item[1]):  # those that are taken off first
        for k, atom in enumerate(term):
            parts, others = parts_of(atom), (*term[:k], *term[k + 1 :])
            if parts is None or parts[0] != "div" or not all(map(_is_size, others)):
                continue
            least, by = parts[1]
            if count > 0:
                least = least + -by + polynomial(1)
            rest = SizePolynomial({t: c for t, c in size.terms.items() if t != term})
            return rest * by + least * SizePolynomial({others: count})
    return None


def _is_size(atom: str) -> bool:
    parts = parts_of(atom)
    if parts is None or parts[0] == "window":
        return True
    found = [is_never_negative(operand) for operand in parts[1]]
    return any(found) if parts[0] == "max" else all(found)


def windowed(size: SizePolynomial) -> SizePolynomial:
    """A size that is at least 1, or its inputs are refused; *size* itself where it cannot be less."""
    if size.terms.get((), 0) > 0 and all(count > 0 for count in size.terms.values()):
        return size
    atom = only_atom(size)
    return size if atom is not None and atom[0] == "window" else SizePolynomial({(f"window({size})",): 1})


def only_atom(size: SizePolynomial) -> tuple[str, list[SizePolynomial]] | None:
    """The function and the operands of a size that is one atom and no more."""
    if len(size.terms) != 1:
        return None
    ((term, count),) = size.terms.items()
    return parts_of(term[0]) if count == 1 and len(term) == 1 else None


COMBINED: dict[str, Callable[..., SizePolynomial]] = {
    "min": functools.partial(extreme, "min"),
    "max": functools.partial(extreme, "max"),
    "broadcast": broadcast,
}


class _Reader:
    """Reads the text of a polynomial."""

    def __init__(self, text: str):
        if len(text) > MOST_LETTERS:
            raise ArtifactError(f"a size of {len(text)} letters: {text[:60]}...")
        self._text, self._at = text, 0

    def read(self) -> SizePolynomial:
        found = self._sum()
        if self._text[self._at :].strip():
            raise self._error()
        return found

    def _error(self) -> ArtifactError:
        return ArtifactError(f"{self._text[:80]!r} is no size: at letter {self._at + 1}")

    def _peek(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        return found[0].strip() if found else ""

    def _take(self) -> str:
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise self._error()
        self._at = found.end()
        return found[0].strip()

    def _sum(self) -> SizePolynomial:
        sign = self._peek() == "-"
        if sign:
            self._take()
        found = -self._product() if sign else self._product()
        while self._peek() in ("+", "-"):
            found = found + (self._product() if self._take() == "+" else -self._product())
        return found

    def _product(self) -> SizePolynomial:
        found = self._atom()
        while self._peek() == "*":
            self._take()
            found = found * self._atom()
        return found

    def _atom(self) -> SizePolynomial:
        token = self._take()
        if token.isdigit():
            return polynomial(int(token))
        if token in FUNCTIONS and self._peek() == "(":
            self._take()
            a, *others = self.operands(token)
            self._expect(")")
            if token == "window":
                return windowed(a)
            if token in ("div", "trunc"):
                (b,) = others
                if not b.number or b.number < 0:
                    raise self._error()
                return (quotient if token == "div" else truncated)(a, b.number)
            return COMBINED[token](a, *others)
        if token in "+-*(),":
            raise self._error()
        return SizePolynomial({(token,): 1})

    def operands(self, function: str) -> list[SizePolynomial]:
        """As many as *function* has."""
        found = [self._sum()]
        while len(found) < _ARITY[function] if function in _ARITY else len(found) < 2 or self._peek() == ",":
            self._expect(",")
            found.append(self._sum())
        return found

    def _expect(self, mark: str) -> None:
        if self._take() != mark:
            raise self._error()


@functools.cache
def parts_of(atom: str) -> tuple[str, list[SizePolynomial]] | None:
    """The function and the operands of an atom; None for a name."""
    name, bracket, rest = atom.partition("(")
    if not bracket or name not in FUNCTIONS or not rest.endswith(")"):
        return None
    return name, _Reader(rest[:-1]).operands(name)


@functools.cache
def names_in(name: str) -> frozenset[str]:
    """The names of which the size *name* is made; itself where it is not derived. Raises as :func:`polynomial`."""
    return frozenset(_names(polynomial(name)))


def _names(size: SizePolynomial) -> Iterator[str]:
    for atom in dict.fromkeys(a for term in size.terms for a in term):
        parts = parts_of(atom)
        if parts is None:
            yield json.loads(atom) if atom.startswith('"') else atom
        else:
            for operand in parts[1]:
                yield from _names(operand)


def names_in_atom(atom: str) -> frozenset[str]:
    """The names of which an atom is made."""
    return frozenset(_names(SizePolynomial({(atom,): 1})))
