"""Other forms of a size that follows from named ones: shorter ones, and the one that all names of a size share.

Two names may be one size: a convolution's result is ``window(div(H-3,2)+1)`` long, and what a model computes of its
shapes says ``trunc(H-3,2)+1``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from byoc.runtime.core.derived_size import (
    COMBINED,
    OTHER,
    SizePolynomial,
    Term,
    extreme,
    is_derived,
    name_of,
    only_atom,
    parts_of,
    polynomial,
    quotient,
)

MOST_STEPS = 64  # of a division


def exact_quotient(a: SizePolynomial, b: SizePolynomial) -> SizePolynomial | None:
    """``a // b`` where *a* is *b* times something (``N*S // N``, ``(H*W-H) // (W-1)``), else None."""
    atoms = sorted({atom for size in (a, b) for term in size.terms for atom in term})

    def leading(size: SizePolynomial) -> Term:  # in the lexical order of exponents, which products keep
        return max(size.terms, key=lambda term: [term.count(atom) for atom in atoms])

    found: dict[Term, int] = {}
    rest = a
    for _ in range(MOST_STEPS):
        if not rest.terms or not b.terms:
            break
        top, by = leading(rest), leading(b)
        left = _without(top, by)
        if left is None or rest.terms[top] % b.terms[by]:
            return None
        found[left] = rest.terms[top] // b.terms[by]
        rest = rest + -(b * SizePolynomial({left: found[left]}))
    return None if rest.terms else SizePolynomial(found)


def _without(term: Term, factor: Term) -> Term | None:
    """*term* divided by *factor*, or None."""
    rest = list(term)
    for atom in factor:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def folded(size: SizePolynomial) -> SizePolynomial:
    """*size* in the shorter of its forms, where an extreme is taken off or a number added to one.

    ``1-max(1-S,0)`` is ``min(S,1)``, and so is ``min(S-1,0)+1``; ``min(2,S)+max(0,S-2)`` is ``S``.
    """
    found = [(term, count, parts_of(term[0])) for term, count in size.terms.items() if len(term) == 1]
    extremes = [(t, count, parts) for t, count, parts in found if parts is not None and parts[0] in OTHER]
    if len(extremes) == 2:
        return _both_parts(size, extremes)
    if len(extremes) != 1:
        return size
    ((term, count, (function, operands)),) = extremes
    rest = SizePolynomial({t: c for t, c in size.terms.items() if t != term})
    if count == -1:
        return extreme(OTHER[function], *(rest + -operand for operand in operands))
    number = rest.number
    if count == 1 and number and any(operand.terms.get((), 0) == -number for operand in operands):
        return extreme(function, *(rest + operand for operand in operands))
    return size


def _both_parts(
    size: SizePolynomial, extremes: Sequence[tuple[Term, int, tuple[str, list[SizePolynomial]]]]
) -> SizePolynomial:
    """*size* without its two *extremes* where they are both parts of a whole: ``min(a,b) + max(a,b)`` is ``a + b``."""
    (one, m, (first, a)), (other, n, (second, b)) = extremes
    if m != n or OTHER[first] != second or len(a) != 2 or len(b) != 2:
        return size
    more = [(b[0] + -x, b[1] + -y) for x, y in (a, reversed(a))]
    shift = next((x for x, y in more if x.number is not None and str(x) == str(y)), None)
    if shift is None:
        return size
    rest = SizePolynomial({t: c for t, c in size.terms.items() if t not in (one, other)})
    return rest + (a[0] + a[1] + shift) * polynomial(m)


def unguarded(size: SizePolynomial) -> SizePolynomial:
    """*size* without ``window``: the same number wherever the inputs are not refused, ``trunc`` rounded down.

    A convolution's result is ``window(div(H-3,2)+1)`` long, and what a model computes of shapes says
    ``trunc(H-3,2)+1``, which is the same where the window fits.
    """
    found = polynomial(0)
    for term, count in size.terms.items():
        product = polynomial(count)
        for atom in term:
            product = product * _unguarded_atom(atom)
        found = found + product
    return found


@functools.cache
def _unguarded_atom(atom: str) -> SizePolynomial:
    parts = parts_of(atom)
    if parts is None or not _is_guarded(atom):
        return SizePolynomial({(atom,): 1})
    function, operands = parts
    if function == "window":
        return unguarded(operands[0])
    if function in ("div", "trunc"):
        assert operands[1].number is not None
        return quotient(unguarded(operands[0]), operands[1].number)
    return COMBINED[function](*map(unguarded, operands))


@functools.cache
def unguarded_name(name: str) -> str:
    """One name for all that a dimension has: :func:`unguarded`, without the ``max(0,...)`` of what counts up to it.

    A dimension is not negative, so that ``(max(0,S-1))`` and ``(S-1)`` are one wherever both are dimensions. Raises as
    :func:`polynomial`.
    """
    if not is_derived(name) or not _is_guarded(name):
        return name
    size = unguarded(polynomial(name))
    atom = only_atom(size)
    if atom is not None and atom[0] == "max":
        others = [operand for operand in atom[1] if operand.number != 0]
        size = others[0] if len(others) == 1 else size
    return name_of(size)


def _is_guarded(text: str) -> bool:
    return "window(" in text or "trunc(" in text or "max(0," in text
