"""Type relations that many operators share, and the arithmetic of dimensions that they are made of.

A dynamic dimension with a name is one size wherever the name occurs, so that a relation keeps a name where the size is
kept and gives an unnamed ``Any()`` where nothing can be said.

As in Relay, the relations of elementwise operators, broadcasts and reductions do not ask what a dtype is (``log`` of
integers has a type); what of it has generated code says ``code_for`` of the operator, the rest runs on numpy kernels.
The ONNX importer holds models to the dtypes of their schemas. Source: ``relay/op/type_relations.h``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import DtypePredicate, TypeRule
from byoc.ir.size_var import broadcast as both
from byoc.ir.types import Any, Dim, TensorType, TupleType, Type


def tensor_arg(types: Sequence[Type], index: int, name: str = "data") -> TensorType:
    """Input *index* as a tensor type. Raises TypeInferenceError when it is a tuple or a function."""
    ty = types[index]
    if not isinstance(ty, TensorType):
        raise TypeInferenceError(f"input {name} must be a tensor, got {ty}")
    return ty


def tuple_arg(types: Sequence[Type], index: int = 0, name: str = "data") -> tuple[TensorType, ...]:
    """Input *index* as the types of a tuple of tensors. Raises TypeInferenceError when it is no such tuple."""
    ty = types[index]
    fields = [f for f in ty.fields if isinstance(f, TensorType)] if isinstance(ty, TupleType) else []
    if not isinstance(ty, TupleType) or len(fields) != len(ty.fields):
        raise TypeInferenceError(f"input {name} must be a tuple of tensors, got {ty}")
    if not fields:
        raise TypeInferenceError(f"input {name} is an empty tuple")
    return tuple(fields)


def normalize_axis(axis: int, ndim: int, what: str = "axis") -> int:
    """*axis* counted from the front. Raises TypeInferenceError when it is not in [-ndim, ndim)."""
    if not -ndim <= axis < ndim:
        raise TypeInferenceError(f"{what} {axis} is outside [{-ndim}, {ndim}) of a tensor of rank {ndim}")
    return axis % ndim


def normalize_axes(axes: int | Iterable[int], ndim: int, what: str = "axis") -> tuple[int, ...]:
    """Several axes counted from the front, in their order. Raises TypeInferenceError for one given twice."""
    result = tuple(normalize_axis(a, ndim, what) for a in ((axes,) if isinstance(axes, int) else axes))
    if len(set(result)) != len(result):
        raise TypeInferenceError(f"{what} {result} names an axis twice")
    return result


def broadcast_dim(a: Dim, b: Dim) -> Dim:
    """The size of two dimensions broadcast together. Raises TypeInferenceError for two numbers that do not fit.

    A dynamic dimension beside a number other than 1 takes that number, as in Relay: it is 1 or the same at run time. Of
    two named ones it is the larger, for the same reason, but of 0 and 1 it is 0.
    """
    if a == b or b == 1:
        return a
    if a == 1:
        return b
    if isinstance(a, Any):
        return both(a, b) if isinstance(b, Any) else b
    if isinstance(b, Any):
        return a
    raise TypeInferenceError(f"dimensions {a} and {b} do not broadcast")


def broadcast_shape(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...]:
    """Two shapes broadcast as numpy does. Raises TypeInferenceError naming both shapes."""
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    try:
        return tuple(broadcast_dim(x, y) for x, y in zip(left, right, strict=True))
    except TypeInferenceError as error:
        raise TypeInferenceError(
            f"Invalid broadcast shapes: shapes {tuple(a)} and {tuple(b)} do not broadcast: {error}"
        ) from None


def unify_dim(a: Dim, b: Dim) -> Dim | None:
    """The one size that two dimensions must share, the more precise of both; None for two different numbers."""
    if a == b or (isinstance(b, Any) and not (isinstance(a, Any) and not a.name)):
        return a
    return b if isinstance(a, Any) else None


def same_dtype(types: Sequence[TensorType]) -> str:
    """The dtype that all *types* share. Raises TypeInferenceError otherwise."""
    dtypes = list(dict.fromkeys(t.dtype for t in types))
    if len(dtypes) != 1:
        raise TypeInferenceError(f"all inputs must have one dtype, got {' and '.join(dtypes)}; cast one of them")
    return dtypes[0]


def identity(types: Sequence[Type], attrs: Attrs | None) -> Type:
    """The result has the type of the first input."""
    return tensor_arg(types, 0)


identity.unifies = True  # type: ignore[attr-defined]  # the type solver may go from the result to the input


def identity_as(dtype: str) -> TypeRule:
    """The relation whose result has the shape of the first input and *dtype*."""
    return lambda types, attrs: TensorType(tensor_arg(types, 0).shape, dtype)


def is_integer(dtype: str) -> bool:
    """True for signed and unsigned integers, not for bool."""
    return dtype.startswith(("int", "uint"))


def is_float(dtype: str) -> bool:
    """True for the floating-point dtypes."""
    return "float" in dtype


def is_number(dtype: str) -> bool:
    """True for floats and integers, not for bool and strings."""
    return is_float(dtype) or is_integer(dtype)


def broadcast(types: Sequence[Type], attrs: Attrs | None) -> TensorType:
    """The result is both inputs broadcast, of their common dtype."""
    lhs, rhs = tensor_arg(types, 0, "lhs"), tensor_arg(types, 1, "rhs")
    if lhs == rhs:
        return lhs
    return TensorType(broadcast_shape(lhs.shape, rhs.shape), same_dtype((lhs, rhs)))


def only(allowed: Callable[[str], bool]) -> DtypePredicate:
    """The dtypes for which a tensor expression holds, where the relation asks nothing: all that *allowed* takes."""
    return lambda dtypes, attrs: all(map(allowed, dtypes))


def broadcast_compare(types: Sequence[Type], attrs: Attrs | None) -> Type:
    """The result is both inputs broadcast, as bool."""
    return TensorType(broadcast(types, attrs).shape, "bool")
