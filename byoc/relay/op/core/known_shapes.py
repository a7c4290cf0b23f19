"""Shapes that are known in part, and products of dimensions, in which unknown sizes cancel.

``dyn.reshape`` to ``[N, 2*S]``, ``arange`` up to S, a slice of 512 up to S: their results have the dimensions
``(N, 2*S)``, ``(S)`` and ``(min(512, S))``, which the attribute ``known`` of such an operator says, so that its type
has names and it has generated code. The rule of an operator stands under the key FKNOWN_SHAPE of its registration; it
is given a call and what is known of the elements of its operands. FoldConstant asks it. What is known of the elements
of a result stands under FKNOWN_ELEMENTS where the operator is none of those that ``shape_values`` knows.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from byoc.ir.size_var import greater, lesser, minus, parted, plus, times
from byoc.ir.types import Any, Dim, TensorType, tensor_types
from byoc.relay.expr import Call
from byoc.runtime.core.derived_size import SizePolynomial, is_derived, is_never_negative, name_of, polynomial
from byoc.runtime.core.size_forms import exact_quotient, unguarded, unguarded_name


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
    terms = polynomial(dim.name).terms if is_derived(dim.name) else {}
    if len(terms) == 1:  # 4*N
        ((term, count),) = terms.items()
        return SizeProduct(count, tuple(sorted(name_of(SizePolynomial({(atom,): 1})) for atom in term)))
    whole = math.gcd(*terms.values())
    if whole > 1:  # 18*N-18
        return SizeProduct(whole, (name_of(SizePolynomial({term: count // whole for term, count in terms.items()})),))
    return SizeProduct(1, (dim.name or f"?{place}",))


def shape_product(shape: Sequence[Dim]) -> SizeProduct:
    """The number of elements of *shape*."""
    return multiply(dim_product(d, k) for k, d in enumerate(shape))


def are_as_many(shape: Sequence[Dim], newshape: Sequence[int]) -> bool:
    """Whether both say every size, and as many elements: what nearly every reshape of a compilation is."""
    total = 1
    for size in shape:
        if not isinstance(size, int):
            return False
        total *= size
    for size in newshape:
        if size <= 0 or total % size:
            return False
        total //= size
    return total == 1


def multiply(products: Iterable[SizeProduct]) -> SizeProduct:
    """The product of products."""
    result = SizeProduct(1)
    for p in products:
        result = result * p
    return result


FKNOWN_SHAPE, FKNOWN_ELEMENTS = "FKnownShape", "FKnownElements"
FPLAIN_FORM = "FPlainForm"  # what a call of an operator without code is, where enough is known of its operands
Dims = Sequence[Dim]
Item = int | Any | None  # an element: a number, a named size, or nothing known
Known = Callable[[int], "list[Item] | None"]  # of an operand by its position: its elements in their order
ShapeRule = Callable[[Call, Known], "Dims | None"]
ElementsRule = Callable[[Call, Known], "list[Item] | None"]
PlainForm = Callable[[Call, Known], "Call | None"]


def is_size(item: Item) -> bool:
    """Whether *item* is known and cannot be negative."""
    if isinstance(item, Any):
        size = polynomial(item.name)
        return is_never_negative(size) or is_never_negative(unguarded(size))
    return item is not None and item >= 0


def _dim(item: Item) -> Dim:
    """An element of a shape as a dimension, which is unknown where the element is."""
    return Any() if item is None else item


def reshaped_dims(shape: Dims, items: Sequence[Item], allowzero: bool = False) -> list[Dim] | None:
    """The dimensions that *shape* takes; None where it is not known that it has as many elements."""
    if any(isinstance(d, Any) and not d.name for d in shape) or any(isinstance(i, int) and i < -1 for i in items):
        return None
    dims: list[Dim | None] = []
    for k, item in enumerate(items):
        if item is None or (item == 0 and (allowzero or k >= len(shape))):
            return None
        dims.append(shape[k] if item == 0 else None if item == -1 else item)
    given: SizeProduct = multiply(dim_product(d) for d in dims if d is not None)
    total = shape_product(shape)
    whole = [d for d in dims if d is not None]
    if len(whole) == len(dims):
        return whole if str(_polynomial(whole)) == str(_polynomial(shape)) else None
    if dims.count(None) > 1:
        return None
    quotient = total.divided_by(given)
    rest = _quotient(shape, whole) if quotient is None else quotient.as_dim()
    return None if rest is None else [rest if d is None else d for d in dims]


def _quotient(shape: Dims, given: Dims) -> Dim | None:
    """How often the product of *given* is in that of *shape*; None where that is not known."""
    size, by = _polynomial(shape), _polynomial(given)
    found = exact_quotient(size, by) if by.terms else None
    if found is None:
        return None
    return Any(name_of(found)) if found.number is None else found.number


def _polynomial(shape: Dims) -> SizePolynomial:
    size = polynomial(1)
    for dim in shape:
        size = size * polynomial(unguarded_name(dim.name) if isinstance(dim, Any) else int(dim))
    return size


def reshape_shape(call: Call, known: Known) -> Dims | None:
    """Of ``dyn.reshape``."""
    items = known(1)
    data = call.args[0].checked_type
    if items is None or not isinstance(data, TensorType):
        return None
    return reshaped_dims(data.shape, items, bool(getattr(call.attrs, "allowzero", False)))


def shape_operand(index: int) -> ShapeRule:
    """Of an operator whose operand *index* is the shape of its result."""

    def dims(call: Call, known: Known) -> Dims | None:
        items = known(index)
        return None if items is None else [_dim(i) for i in items]

    return dims


def broadcast_shape(call: Call, known: Known) -> Dims | None:
    """Of ``dyn.broadcast_to``."""
    found = shape_operand(1)(call, known)
    data = tensor_types(call.args[0].checked_type)[0]
    if found is None or len(found) < data.ndim:
        return None
    own = [1] * (len(found) - data.ndim) + list(data.shape)
    fits = all(a in (1, b) or not isinstance(b, Any) for a, b in zip(own, found, strict=True))
    return found if fits else None


def tile_shape(call: Call, known: Known) -> Dims | None:
    """Of ``dyn.tile``: each size as often as is said; the shorter of both lists has ones in front."""
    reps = known(1)
    data = tensor_types(call.args[0].checked_type)[0]
    if reps is None:
        return None
    rank = max(data.ndim, len(reps))
    dims = [1] * (rank - data.ndim) + list(data.shape)
    often = [1] * (rank - len(reps)) + reps
    return [
        Any() if n is None else times(d, n if is_size(n) else greater(n, 0)) for d, n in zip(dims, often, strict=True)
    ]


def pad_shape(call: Call, known: Known) -> Dims | None:
    """Of ``dyn.nn.pad`` of constants; where elements are mirrored, a kernel looks whether there are enough."""
    widths = known(1)
    data = tensor_types(call.args[0].checked_type)[0]
    if widths is None or getattr(call.attrs, "pad_mode", "constant") != "constant":
        return None
    pairs = zip(widths[::2], widths[1::2], strict=True)
    return [
        Any() if before is None or after is None else plus(size, plus(before, after))
        for size, (before, after) in zip(data.shape, pairs, strict=True)
    ]


def slice_shape(call: Call, known: Known) -> Dims | None:
    """Of ``dyn.strided_slice``."""
    parts = [known(k) for k in (1, 2, 3)]
    data = tensor_types(call.args[0].checked_type)[0]
    begin, end, strides = parts
    if begin is None or end is None or strides is None or getattr(call.attrs, "slice_mode", "end") != "end":
        return None
    axes = getattr(call.attrs, "axes", None)
    places = [a % data.ndim for a in axes] if axes is not None else range(len(begin))
    steps = strides * len(begin) if len(strides) == 1 else strides
    shape = list(data.shape)
    for place, first, last, step in zip(places, begin, end, steps, strict=True):
        shape[place] = _cut(shape[place], first, last, step)
    return shape


WHOLE = 2**31 - 1  # as a slice's end: all that there is


def _cut(dim: Dim, first: Item, last: Item, step: Item) -> Dim:
    if not isinstance(step, int) or step < 1 or first is None or last is None:
        return Any()
    if isinstance(last, int) and last >= WHOLE:
        if isinstance(dim, Any) and not dim.name:
            return dim
        last = dim
    if not is_size(first):  # a negative one counts from the end
        return Any()
    size = plus(_up_to(dim, last), times(first, -1))
    if first != 0 and not is_size(size):
        size = greater(size, 0)
    return size if step == 1 else parted(plus(size, step - 1), step)


def _up_to(dim: Dim, last: Dim) -> Dim:
    """How many of *dim* elements stand before *last*, which counts from the end where it is negative."""
    if is_size(last):
        return lesser(dim, last)
    if isinstance(last, int):
        return greater(plus(dim, last), 0)
    if minus(dim, last) == 1:  # negative of no elements alone
        return greater(last, 0)
    is_negative = lesser(greater(times(last, -1), 0), 1)
    return greater(lesser(dim, plus(last, times(is_negative, dim))), 0)


def arange_shape(call: Call, known: Known) -> Dims | None:
    """Of ``arange``, whose bounds may be floats that hold sizes, or a fraction."""
    parts = [known(k) for k in range(3)]
    if any(p is None or len(p) != 1 for p in parts):
        return None
    start, stop, step = (p[0] for p in parts if p)
    if isinstance(start, Fraction) and isinstance(stop, (int, Any)) and isinstance(step, int):
        by = start.denominator  # from 1/2 up to S: as from 1 up to 2*S in steps of 2
        start, stop, step = start.numerator, times(stop, by), step * by
    if not isinstance(start, (int, Any)) or not isinstance(stop, (int, Any)) or not isinstance(step, int) or step == 0:
        return None
    if step < 0:  # as many numbers down as up
        start, stop, step = stop, start, -step
    size = plus(stop, times(start, -1))
    if isinstance(size, Any) and not is_size(size):
        size = greater(size, 0)
    return [size if step == 1 else parted(plus(size, step - 1), step)]


def parts_elements(call: Call, known: Known) -> list[Item] | None:
    """Of ``dyn.split_bounds``: sums of the sizes of parts that are known to make up the axis."""
    sizes = known(1)
    shape = tensor_types(call.args[0].checked_type)[0].shape
    if sizes is None:
        return None
    places: list[Item] = [0]
    for size in sizes:
        last = places[-1]
        if size is None or last is None or not is_size(size):
            return None
        total = plus(last, size)
        places.append(int(total) if isinstance(total, int) else total)
    return places if places[-1] == shape[int(getattr(call.attrs, "axis", 0))] else None


def pad_elements(call: Call, known: Known) -> list[Item] | None:
    """Of ``dyn.pad_bounds``: nothing is cut where each side is put a size of constants."""
    pads, axes = known(1), known(2)
    shape = tensor_types(call.args[0].checked_type)[0].shape
    if pads is None or axes is None or getattr(call.attrs, "mode", "") != "constant" or not all(map(is_size, pads)):
        return None
    sides: list[list[Item]] = [[0] * len(shape), [0] * len(shape)]
    for k, axis in enumerate(axes):
        if not isinstance(axis, int) or not -len(shape) <= axis < len(shape) or 2 * len(axes) != len(pads):
            return None
        sides[0][axis], sides[1][axis] = pads[k], pads[len(axes) + k]
    sizes: list[Item] = [None if isinstance(d, Any) and not d.name else d for d in shape]
    return [*[0] * len(shape), *sizes, *sides[0], *sides[1]]
