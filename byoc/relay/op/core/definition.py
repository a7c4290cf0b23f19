"""The tensor expression of one call: placeholders for its inputs, and its outputs by the operator's definition.

Where an operator has no definition, or where a dimension is dynamic and unnamed, no code can be generated and the call
runs on its numpy kernel: :func:`is_definable` says so before :func:`define` is asked.
"""

from __future__ import annotations

from collections.abc import Sequence

from byoc import te
from byoc.errors import InternalError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Op
from byoc.ir.types import TensorType, Type, tensor_types

RECURRENT = "TRecurrent"  # the attribute of an operator whose tensor expression is a recurrence


def takes_dtypes(op: Op, attrs: Attrs | None, arg_types: Sequence[Type]) -> bool:
    """True when the definition of *op*, if it has one, holds for inputs of these dtypes."""
    return op.code_for is None or op.code_for([t.dtype for ty in arg_types for t in tensor_types(ty)], attrs)


def is_definable(op: Op, attrs: Attrs | None, arg_types: Sequence[Type], out_type: Type) -> bool:
    """True when the call of *op* has a tensor expression: one for its dtypes, and static or named dimensions."""
    types = [t for ty in (*arg_types, out_type) for t in tensor_types(ty)]
    if op.compute is None or not takes_dtypes(op, attrs, arg_types):
        return False
    return all(t.is_symbolic and t.dtype != "string" for t in types)


def placeholders(arg_types: Sequence[Type]) -> list[te.Tensor]:
    """One placeholder for each tensor in *arg_types*, tuples flattened, in order."""
    flat: list[TensorType] = [t for ty in arg_types for t in tensor_types(ty)]
    return [te.placeholder(te.shape_of(t), t.dtype, f"p{k}") for k, t in enumerate(flat)]


def define(op: Op, attrs: Attrs | None, inputs: Sequence[te.Tensor], out_type: Type) -> list[te.Tensor]:
    """The output tensors of *op* on *inputs* (tuples flattened), one for each tensor of *out_type*.

    Raises InternalError when the operator has no definition, or when it breaks the promise of its type relation.
    """
    if op.compute is None:
        raise InternalError(f"{op.name} has no tensor expression")
    outputs = [out for out in op.compute(attrs, inputs, out_type) if isinstance(out, te.Tensor)]
    expected = tensor_types(out_type)
    if len(outputs) != len(expected):
        raise InternalError(f"{op.name} defines {len(outputs)} tensors where its type has {len(expected)}")
    for tensor, ty in zip(outputs, expected, strict=True):
        if tensor.dtype != ty.dtype or tensor.ndim != ty.ndim:
            raise InternalError(f"{op.name} defines {tensor} where its type is {ty}")
    return outputs
