"""Element types, ONNX's numbers against the compiler's names (``TensorProto.DataType``); sizes that are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import TensorProto, ValueInfoProto

from byoc.errors import ImportModelError
from byoc.ir.dims import MAX_RANK
from byoc.ir.types import Dim, TensorType, Type

DTYPE_OF: dict[int, str] = {
    TensorProto.FLOAT: "float32",
    TensorProto.DOUBLE: "float64",
    TensorProto.FLOAT16: "float16",
    TensorProto.BFLOAT16: "bfloat16",
    TensorProto.INT8: "int8",
    TensorProto.INT16: "int16",
    TensorProto.INT32: "int32",
    TensorProto.INT64: "int64",
    TensorProto.UINT8: "uint8",
    TensorProto.UINT16: "uint16",
    TensorProto.UINT32: "uint32",
    TensorProto.UINT64: "uint64",
    TensorProto.BOOL: "bool",
    TensorProto.STRING: "string",
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.INT2: "int2",
    TensorProto.UINT2: "uint2",
}
FLOATS = frozenset(["float16", "bfloat16", "float32", "float64"])


def dtype_of(elem_type: int, where: str) -> str:
    """The compiler's name of an ONNX element type; *where* says whose it is.

    Raises ImportModelError for types that the compiler does not have (complex, floats of 6 bits).
    """
    if elem_type in DTYPE_OF:
        return DTYPE_OF[elem_type]
    known = dict(zip(TensorProto.DataType.values(), TensorProto.DataType.keys(), strict=True))
    name = known.get(elem_type, f"number {elem_type}")
    raise ImportModelError(
        f"{where} has the element type {name}, which is not supported; convert it to one of "
        f"{', '.join(sorted(DTYPE_OF.values()))}"
    )


def schema_dtype(text: str) -> str | None:
    """What a schema's type *text* is for the compiler, or ONNX's name where it has none; None where it is no tensor's.

    >>> schema_dtype("tensor(float8e4m3fn)"), schema_dtype("tensor(complex64)"), schema_dtype("seq(tensor(float))")
    ('float8_e4m3fn', 'complex64', None)
    """
    if not text.startswith("tensor("):
        return None
    name = text.removeprefix("tensor(").removesuffix(")")
    return DTYPE_OF.get(TensorProto.DataType.Value(name.upper()), name)


MAX_ELEMENTS = 1 << 48


def check_dims(dims: Sequence[Dim], where: str) -> None:
    """Raises ImportModelError, which says *where*, for a rank or a number of elements that nothing can hold."""
    if len(dims) > MAX_RANK:
        raise ImportModelError(f"{where} has {len(dims)} dimensions, supported are up to {MAX_RANK}")
    if math.prod([d for d in dims if isinstance(d, int)]) > MAX_ELEMENTS:
        raise ImportModelError(f"{where} has the shape {list(dims)}, which is more than {MAX_ELEMENTS:,} elements")


def check_type(ty: Type, where: str) -> None:
    """:func:`check_dims` of a tensor's type."""
    if isinstance(ty, TensorType):
        check_dims(ty.shape, where)


def check_declared_dtype(declared: ValueInfoProto, ty: Type, model: str) -> None:
    """Raises ImportModelError where an output of *model* has another element type than is *declared*, if one is."""
    wanted = declared.type.tensor_type.elem_type if declared.type.HasField("tensor_type") else TensorProto.UNDEFINED
    if wanted == TensorProto.UNDEFINED or not isinstance(ty, TensorType):
        return
    if dtype_of(wanted, f"{model}: output {declared.name!r}") != ty.dtype:
        raise ImportModelError(
            f"{model}: output {declared.name!r} is declared as {DTYPE_OF[wanted]}, and the model makes {ty.dtype}: "
            "cast it, or correct the declaration"
        )
