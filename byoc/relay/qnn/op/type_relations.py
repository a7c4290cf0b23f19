"""What the type relations of quantized operators share: dtypes, and the types of scales and zero points.

A scale is float32 and a zero point int32; each is a scalar, or a vector of one number for each element of an axis. One
number in a vector counts as a scalar. Source: ``relay/qnn/utils.h``, ``AssignType`` and ``IsScalarType``.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.types import Dim, TensorType, Type
from byoc.relay.op.core.type_relations import normalize_axis, tensor_arg
from byoc.relay.op.core.window import differ

SCALE, ZERO_POINT = "float32", "int32"
FLOATS = ("float32", "float16")
NARROW = ("int8", "uint8")
PRODUCTS = ("int8", "uint8", "int16")
QUANTIZED = ("int8", "uint8", "int16", "uint16", "int32")


def check_dtype(what: str, dtype: str, allowed: Sequence[str]) -> None:
    """Raises TypeInferenceError for a dtype that is not among *allowed*."""
    if dtype not in allowed:
        raise TypeInferenceError(f"{what} must be {' or '.join(allowed)}, got {dtype}")


def data_of(types: Sequence[Type], index: int, name: str, allowed: Sequence[str]) -> TensorType:
    """Input *index* as a tensor of one of the *allowed* dtypes. Raises TypeInferenceError for any other."""
    data = tensor_arg(types, index, name)
    check_dtype(f"input {name}", data.dtype, allowed)
    return data


def is_scalar(ty: TensorType) -> bool:
    """True for a scalar, or a tensor of one number."""
    return all(d == 1 for d in ty.shape)


def check_scalar(ty: Type, name: str, dtype: str) -> None:
    """Raises TypeInferenceError unless *ty* is one number of *dtype*."""
    if not isinstance(ty, TensorType) or ty.dtype != dtype or not is_scalar(ty):
        raise TypeInferenceError(f"{name} must be a scalar of {dtype}, got {ty}")


def check_vector(ty: Type, name: str, dtype: str, size: Dim) -> None:
    """Raises TypeInferenceError unless *ty* is a scalar of *dtype* or a vector of *size* numbers."""
    if not isinstance(ty, TensorType) or ty.dtype != dtype:
        raise TypeInferenceError(f"{name} must be a tensor of {dtype}, got {ty}")
    if is_scalar(ty):
        return
    if ty.ndim != 1 or differ(ty.shape[0], size):
        raise TypeInferenceError(f"{name} must be a scalar or a vector of {size} numbers, got {ty}")


def check_along(data: TensorType, types: Sequence[Type], names: tuple[str, str], axis: int) -> None:
    """Check a scale and a zero point, *types*, that are scalars or lie along *axis* of *data*.

    Raises TypeInferenceError; an axis outside the data is one only where a vector lies along it.
    """
    scalars = all(isinstance(ty, TensorType) and is_scalar(ty) for ty in types)
    size: Dim = 1 if scalars else data.shape[normalize_axis(axis, data.ndim)]
    for ty, name, dtype in zip(types, names, (SCALE, ZERO_POINT), strict=True):
        check_vector(ty, name, dtype, size)
