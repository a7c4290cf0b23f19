"""Index arithmetic that definitions of operators share: broadcasting, linear positions, sizes.

All functions take and give te dimensions (ints, or sizes with a name) and index expressions of int64.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc import te
from byoc.ir.dims import Any
from byoc.ir.size_var import greater
from byoc.runtime.core.errors import OF_BROADCAST
from byoc.te.expr import INDEX, Checked, Dimension, PrimExpr, Size

ZERO = te.const(0, INDEX)


def size_of(shape: Sequence[Dimension]) -> Dimension:
    """The number of elements of *shape*: an int where every dimension is one."""
    size: Dimension = 1
    for dim in shape:
        size = dim if size == 1 and isinstance(size, int) else size if dim == 1 and isinstance(dim, int) else size * dim
    return size


def as_index(value: Dimension) -> PrimExpr:
    """A dimension as an index expression."""
    return te.as_expr(value, INDEX)


def broadcast_index(index: PrimExpr, dim: Dimension, out: Dimension) -> PrimExpr:
    """Where broadcasting a dimension of size *dim* to *out* reads for *index*.

    A size against another is that one or 1, which is known at run time only, and checked then.
    """
    if isinstance(dim, int):
        return ZERO if dim == 1 and out != 1 else index
    if dim == out or _is_one_or(dim, out):
        return index
    return te.minimum(index + agreed(dim, out, one_fits=True), dim - 1)


def _is_one_or(dim: Dimension, out: Dimension) -> bool:
    """Whether *dim* is *out*, or 1 where *out* is 0 and has no index."""
    return isinstance(dim, Size) and isinstance(out, Size) and greater(Any(out.name), 1) == Any(dim.name)


def agreed(dim: Dimension, out: Dimension, one_fits: bool = False) -> PrimExpr:
    """0 where *dim* is *out*, or is 1 if *one_fits*; where not, the run fails. It is the same for all elements."""
    own = as_index(dim)
    other = te.if_then_else(own < 2, ZERO, own) if one_fits else own
    place = te.if_then_else(te.binary("eq", own, as_index(out)), ZERO, other)
    return Checked(place, own, f"{OF_BROADCAST}{size_text(dim)} and {size_text(out)}")


def beside(index: PrimExpr, count: Dimension, size: Dimension, check: str) -> PrimExpr:
    """*index*, one of *count*, as a place in a dimension of *size*: the run fails, named *check*, where there are more.

    The check is the same for all elements.
    """
    if count == size or (isinstance(count, int) and isinstance(size, int)):
        return index
    own, end = as_index(count), as_index(size)
    place = te.if_then_else(te.binary("le", own, end), ZERO, own)
    return index + Checked(place, end + 1, check)


def size_text(dim: Dimension) -> str:
    """A dimension as errors name it."""
    return dim.name if isinstance(dim, Size) else str(dim) if isinstance(dim, int) else "another size"


def broadcast_load(tensor: te.Tensor, indices: Sequence[PrimExpr], shape: Sequence[Dimension]) -> PrimExpr:
    """The element of *tensor* that broadcasting puts at *indices* of a result of *shape*."""
    skipped = len(indices) - tensor.ndim
    own = zip(indices[skipped:], tensor.shape, shape[skipped:], strict=True)
    return tensor[tuple(broadcast_index(index, dim, out) for index, dim, out in own)]


def linear_index(indices: Sequence[PrimExpr], shape: Sequence[Dimension]) -> PrimExpr:
    """The row-major position of *indices* in a tensor of *shape*."""
    position: PrimExpr = ZERO
    for index, dim in zip(indices, shape, strict=True):
        position = position * dim + index
    return position


def split_index(position: PrimExpr, shape: Sequence[Dimension]) -> list[PrimExpr]:
    """The indices of the element at a row-major *position*; dimensions of 1 get 0."""
    result: list[PrimExpr] = []
    for k, dim in enumerate(shape):
        inner = size_of(shape[k + 1 :])
        index = position // inner
        first = all(isinstance(d, int) and d == 1 for d in shape[:k])
        result.append(ZERO if isinstance(dim, int) and dim == 1 else index if first else index % dim)
    return result


def clamp(index: PrimExpr, dim: Dimension) -> PrimExpr:
    """*index* moved into [0, dim)."""
    return te.maximum(te.minimum(te.cast(INDEX, index), as_index(dim) - 1), 0)


def load_below(tensor: te.Tensor, indices: Sequence[PrimExpr], dims: Sequence[int]) -> PrimExpr:
    """The element of *tensor* at *indices*, of which those of the dimensions *dims* are clamped.

    A dimension whose size is known only at run time may have no element at all, and then 0 stands for it.
    """
    free = [te.all_of(indices[k] < tensor.shape[k]) for k in dims if not isinstance(tensor.shape[k], int)]
    element = tensor[tuple(indices)]
    return te.if_then_else(te.all_of(*free), element, te.const(0, tensor.dtype)) if free else element


def wrap_negative(index: PrimExpr, dim: Dimension) -> PrimExpr:
    """*index* counted from the end where it is negative, then moved into [0, dim)."""
    index = te.cast(INDEX, index)
    return clamp(te.if_then_else(index < 0, index + dim, index), dim)
