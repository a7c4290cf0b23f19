"""Polynomials over the atoms of index arithmetic: axes, sizes, and expressions that are not linear.

Terms keep the order in which they were met, and the factors of a product an order by name, so that text made from a
polynomial is the same in every run. Two atoms are one if their keys are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from byoc.te import Index, PrimExpr
from byoc.te.walk import mentions

Monomial = tuple[object, ...]  # the keys of its atoms
Key = tuple[object, ...]


class Polynomial:
    """``sum(coefficient * product(atoms)) + constant``, terms in the order in which they were met."""

    __slots__ = ("atoms", "constant", "terms")

    def __init__(self, constant: int = 0):
        self.terms: dict[Monomial, int] = {}
        self.atoms: dict[object, PrimExpr] = {}
        self.constant = constant

    @staticmethod
    def of_atom(key: object, atom: PrimExpr) -> Polynomial:
        result = Polynomial()
        result.terms[(key,)] = 1
        result.atoms[key] = atom
        return result

    @staticmethod
    def of_product(keys: Sequence[object], factor: int, atoms: Mapping[object, PrimExpr]) -> Polynomial:
        """*factor* times the product of those *atoms* whose keys these are."""
        result = Polynomial(0 if keys else factor)
        result.atoms = dict(atoms)
        if keys:
            result.terms[tuple(keys)] = factor
        return result

    def add(self, other: Polynomial, factor: int = 1) -> Polynomial:
        """``self + factor * other``, a new polynomial."""
        result = Polynomial(self.constant + factor * other.constant)
        result.atoms = {**self.atoms, **other.atoms}
        result.terms = dict(self.terms)
        for monomial, c in other.terms.items():
            total = result.terms.get(monomial, 0) + factor * c
            if total:
                result.terms[monomial] = total
            else:
                result.terms.pop(monomial, None)
        return result

    def multiply(self, other: Polynomial) -> Polynomial:
        result = Polynomial(self.constant * other.constant)
        result.atoms = {**self.atoms, **other.atoms}
        for a, ca in (*self.terms.items(), ((), self.constant)):
            for b, cb in (*other.terms.items(), ((), other.constant)):
                monomial = _product_of((*a, *b), result.atoms)
                if monomial and ca * cb:
                    result.terms[monomial] = result.terms.get(monomial, 0) + ca * cb
        result.terms = {m: c for m, c in result.terms.items() if c}
        return result

    def split(self, divisor: int) -> tuple[Polynomial, Polynomial]:
        """``(q, r)`` with ``self == q * divisor + r``, where *r* keeps the terms that *divisor* does not divide."""
        quotient, rest = Polynomial(self.constant // divisor), Polynomial(self.constant % divisor)
        quotient.atoms = rest.atoms = self.atoms
        for monomial, c in self.terms.items():
            if c % divisor == 0:
                quotient.terms[monomial] = c // divisor
            else:
                rest.terms[monomial] = c
        return quotient, rest

    def single_term(self) -> bool:
        """True for one atom and nothing else."""
        return not self.constant and len(self.terms) == 1 and all(c == 1 and len(m) == 1 for m, c in self.terms.items())

    def key(self) -> Key:
        return (*sorted(self.terms.items(), key=repr), self.constant)

    def without(self, axis: Index) -> Polynomial:
        """The polynomial less its linear term in *axis*."""
        return self.without_term((id(axis),))

    def without_term(self, monomial: Monomial) -> Polynomial:
        """The polynomial less the term of *monomial*, where it has one."""
        result = self.add(Polynomial())
        result.terms.pop(monomial, None)
        return result

    def coefficient(self, axis: Index) -> int | None:
        """The factor of *axis*; 0 where it does not occur, None where it stands in anything but a linear term."""
        result = 0
        for monomial, c in self.terms.items():
            if monomial == (id(axis),):
                result = c
            elif any(mentions(self.atoms[k], axis) for k in monomial):
                return None
        return result


def _product_of(keys: Sequence[object], atoms: dict[object, PrimExpr]) -> Monomial:
    """The monomial of *keys*, in an order that does not depend on the run."""
    return tuple(sorted(keys, key=lambda k: _atom_rank(atoms[k])))


def _atom_rank(atom: PrimExpr) -> str:
    return f"{type(atom).__name__} {getattr(atom, 'name', '')}"
