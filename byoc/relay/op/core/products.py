"""Products of dimensions, so that unknown sizes cancel: ``(N, 4, 5)`` as ``(-1, 20)`` is ``(N, 20)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byoc.ir.size_var import times
from byoc.ir.types import Any, Dim
from byoc.runtime.core.derived_size import SizePolynomial, is_derived, name_of, polynomial
from byoc.runtime.core.size_forms import unguarded_name


@dataclass(frozen=True)
class SizeProduct:
    """A number times sizes, each by a key: its name, or the place of an unnamed dimension."""

    number: int
    keys: tuple[str, ...] = ()

    def __mul__(self, other: SizeProduct) -> SizeProduct:
        return SizeProduct(self.number * other.number, tuple(sorted(self.keys + other.keys)))

    def divided_by(self, other: SizeProduct) -> SizeProduct | None:
        """The quotient, or None where it is not known to be whole."""
        left, right = (Counter(map(unguarded_name, product.keys)) for product in (self, other))
        if other.number == 0 or self.number % other.number or right - left:
            return None
        return SizeProduct(self.number // other.number, tuple(sorted((left - right).elements())))

    def as_dim(self) -> Dim:
        """The product as one dimension: a number, a named size or one that follows from such, or an unnamed one."""
        if not self.keys or self.number == 0:
            return self.number
        if any(key.startswith("?") for key in self.keys):
            return Any()
        size: Dim = self.number
        for key in self.keys:
            size = times(size, Any(key))
        return size


def dim_product(dim: Dim, place: int = 0) -> SizeProduct:
    """One dimension as a product; an unnamed one gets a key by its *place*."""
    if isinstance(dim, int):
        return SizeProduct(dim)
    if is_derived(dim.name) and len(polynomial(dim.name).terms) == 1:  # 4*N
        ((term, count),) = polynomial(dim.name).terms.items()
        return SizeProduct(count, tuple(sorted(name_of(SizePolynomial({(atom,): 1})) for atom in term)))
    return SizeProduct(1, (dim.name or f"?{place}",))


def shape_product(shape: Sequence[Dim]) -> SizeProduct:
    """The number of elements of *shape*."""
    return multiply(dim_product(d, k) for k, d in enumerate(shape))


def multiply(products: Iterable[SizeProduct]) -> SizeProduct:
    """The product of products."""
    result = SizeProduct(1)
    for p in products:
        result = result * p
    return result
