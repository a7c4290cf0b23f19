"""The sizes that a run binds, and those that follow from them."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Mapping
from typing import TypeGuard

from byoc.runtime.core.derived_size import (
    FUNCTIONS,
    SizePolynomial,
    is_derived,
    names_in,
    names_in_atom,
    parts_of,
    plain_atom,
    polynomial,
)
from byoc.runtime.core.errors import InputError


def is_computable(name: str, known: Collection[str]) -> bool:
    """Whether the size *name* is among *known* ones, or follows from them.

    ``(4*N)`` from N, and N from ``(4*N)``; ``(div(N,2)*M)`` from ``(div(N,2)+1)`` and M, although nothing gives N.
    """
    is_there = name in known or names_in(name) <= (plain := _determined_by(frozenset(known)))
    return is_there or _follows(polynomial(name), plain, {_held_atom(n) for n in known})


@functools.cache
def _determined_by(known: frozenset[str]) -> frozenset[str]:
    """The plain names that *known* ones determine."""
    found = {name for name in known if not is_derived(name)}
    waiting = [name for name in known if is_derived(name)]
    while True:
        solved = [(name, unknown) for name in waiting if (unknown := _only_unknown(name, found)) is not None]
        if not solved:
            return frozenset(found)
        found |= {unknown for _, unknown in solved}
        waiting = [name for name in waiting if name not in {n for n, _ in solved}]


def _only_unknown(name: str, known: Collection[str]) -> str | None:
    """The plain name that the size *name* determines, where all else in it is *known*: it stands in one term, alone."""
    unknown = [n for n in names_in(name) if n not in known]
    if len(unknown) != 1:
        return None
    atom = plain_atom(unknown[0])
    holding = [term for term in polynomial(name).terms if any(unknown[0] in names_in_atom(a) for a in term)]
    return unknown[0] if holding == [(atom,)] else None


@functools.cache
def _held_atom(name: str) -> str | None:
    """The function's value that a derived size *name* is some number of, and another number more; None for others."""
    terms = [term for term in polynomial(name).terms if term] if is_derived(name) else []
    return terms[0][0] if len(terms) == 1 and len(terms[0]) == 1 and parts_of(terms[0][0]) is not None else None


def _follows(size: SizePolynomial, plain: frozenset[str], held: Collection[str | None]) -> bool:
    """Whether *size* is known where the names *plain* and the values *held* of functions are."""

    def is_known(atom: str) -> bool:
        if names_in_atom(atom) <= plain or any(h is not None and _of_value(atom, h) for h in held):
            return True
        operands = (parts_of(atom) or ("", []))[1]
        return bool(operands) and all(_follows(operand, plain, held) for operand in operands)

    return all(is_known(atom) for term in size.terms for atom in term)


@functools.cache
def _of_value(atom: str, held: str) -> tuple[int, int] | None:
    """Numbers *c* and *k* with ``atom == (held + c) // k``: ``div(H+10,8)`` is ``(div(H,2) + 5) // 4``; None where
    there are none.
    """
    if atom == held:
        return 0, 1
    (function, wanted), (other, known) = parts_of(atom) or ("", []), parts_of(held) or ("", [])
    if function != "div" or other != "div":
        return None
    divisor, by, more = wanted[1].number, known[1].number, (wanted[0] + -known[0]).number
    if divisor is None or by is None or more is None or divisor % by or more % by:
        return None
    return more // by, divisor // by


class Sizes(dict[str, int]):
    """The sizes of named dimensions; those that follow from them are computed when they are asked for.

    Equal where what was bound is.
    """

    def __init__(self, bound: Mapping[str, int] | Iterable[tuple[str, int]] = ()):
        super().__init__(bound)
        self._computed: dict[str, int] = {}

    def __missing__(self, name: str) -> int:
        if not isinstance(name, str) or not is_derived(name):
            raise KeyError(name)
        found = self._computed.get(name)
        if found is None:
            found = self._value(polynomial(name))
            if found < 0:
                raise InputError(f"the size {name} is {found} for {self._size_text(name)}: the inputs are too small")
            self._computed[name] = found
        return found

    def _size_text(self, name: str) -> str:
        return ", ".join(f"{n}={self[n]}" for n in sorted(names_in(name)) if n in self)

    def bind(self, name: str, size: int) -> int:
        """The size of *name*, which is *size* unless it is known, or follows from what is."""
        if name in self or not is_derived(name):
            return self.setdefault(name, size)
        if self.determines(name):
            return self[name]
        unknown = _only_unknown(name, self)
        if unknown is not None:
            self._solve(name, unknown, size)
        return self.setdefault(name, size)

    def _solve(self, name: str, unknown: str, size: int) -> None:
        """Bind *unknown*, so that *name* is *size*. Raises InputError where no number does it."""
        terms = polynomial(name).terms
        count = terms[plain_atom(unknown),]
        rest = self._value(SizePolynomial({t: c for t, c in terms.items() if t != (plain_atom(unknown),)}))
        if (size - rest) % count or (size - rest) // count < 0:
            raise InputError(f"a dimension that is {name} cannot have the size {size}")
        self[unknown] = (size - rest) // count

    def determines(self, name: object) -> TypeGuard[str]:
        """Whether a dimension of this name has a size here."""
        return isinstance(name, str) and is_computable(name, self)

    def _value(self, size: SizePolynomial) -> int:
        total = 0
        for term, count in size.terms.items():
            for atom in term:
                count *= self._atom(atom)
            total += count
        return total

    def _atom(self, atom: str) -> int:
        parts = parts_of(atom)
        if parts is None:
            return self[json.loads(atom) if atom.startswith('"') else atom]
        held = None if names_in_atom(atom) <= self.keys() else self._held(atom)
        if held is not None:
            return held
        function, operands = parts
        values = [self._value(operand) for operand in operands]
        if function == "window" and values[0] < 1:
            what = f"({operands[0]})"
            problem = f"{what} is {values[0]} for {self._size_text(what)}"
            raise InputError(f"a window leaves nothing of an axis, {problem}: give larger inputs")
        return int(FUNCTIONS[function](*values))

    def _held(self, atom: str) -> int | None:
        """The value of a function that a size which was bound says, although not all names in it are known."""
        for name, size in self.items():
            held = _held_atom(name)
            found = None if held is None else _of_value(atom, held)
            if held is not None and found is not None:
                terms = polynomial(name).terms
                value, rest = divmod(size - terms.get((), 0), terms[held,])
                if rest:
                    raise InputError(f"a dimension that is {name} cannot have the size {size}")
                return (value + found[0]) // found[1]
        return None
