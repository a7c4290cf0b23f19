"""Products of dimensions, so that unknown sizes cancel: ``(N, 4, 5)`` as ``(-1, 20)`` is ``(N, 20)``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from byoc.ir.types import Any, Dim


@dataclass(frozen=True)
class Product:
    """A number times sizes, each by a key: its name, or the place of an unnamed dimension."""

    number: int
    keys: tuple[str, ...] = ()

    def __mul__(self, other: Product) -> Product:
        return Product(self.number * other.number, tuple(sorted(self.keys + other.keys)))

    def divided_by(self, other: Product) -> Product | None:
        """The quotient, or None where it is not known to be whole."""
        left, right = Counter(self.keys), Counter(other.keys)
        if other.number == 0 or self.number % other.number or right - left:
            return None
        return Product(self.number // other.number, tuple(sorted((left - right).elements())))

    def as_dim(self) -> Dim:
        """The product as one dimension: a number, a named size, or an unnamed one."""
        if not self.keys or self.number == 0:
            return self.number
        if self.number == 1 and len(self.keys) == 1 and not self.keys[0].startswith("?"):
            return Any(self.keys[0])
        return Any()


def dim_product(dim: Dim, place: int = 0) -> Product:
    """One dimension as a product; an unnamed one gets a key by its *place*."""
    return Product(dim) if isinstance(dim, int) else Product(1, (dim.name or f"?{place}",))


def shape_product(shape: Sequence[Dim]) -> Product:
    """The number of elements of *shape*."""
    return multiply(dim_product(d, k) for k, d in enumerate(shape))


def multiply(products: Iterable[Product]) -> Product:
    """The product of products."""
    result = Product(1)
    for p in products:
        result = result * p
    return result
