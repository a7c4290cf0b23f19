"""What calls, tensors and constants cost: operations and bytes. A dynamic dimension counts as 1 and is marked."""

from __future__ import annotations

from dataclasses import dataclass

from byoc.ir.op import Op
from byoc.ir.types import TensorType, Type, dtype_bytes, tensor_types
from byoc.relay.expr import Call, Constant


@dataclass(frozen=True)
class Boundary:
    """A tensor that crosses the border of a region: its name, dtype, shape (as text where dynamic) and bytes."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    bytes: int
    dynamic: bool


def boundaries(name: str, ty: Type) -> list[Boundary]:
    """The tensors of *ty*, tuples flattened."""
    tensors = tensor_types(ty)
    names = [name] if len(tensors) == 1 else [f"{name}.{k}" for k in range(len(tensors))]
    return [boundary(n, t) for n, t in zip(names, tensors, strict=True)]


def boundary(name: str, ty: TensorType) -> Boundary:
    """One tensor of *ty*. Strings count no bytes."""
    size = 0 if ty.dtype == "string" else dtype_bytes(ty.dtype)
    for dim in ty.shape:
        size *= dim if isinstance(dim, int) else 1
    shape = tuple(d if isinstance(d, int) else repr(d) for d in ty.shape)
    return Boundary(name, ty.dtype, shape, size, not ty.is_static)


def call_operations(call: Call) -> int:
    """The operations of the call of an operator, 0 for another."""
    if not isinstance(call.op, Op):
        return 0
    return call.op.cost(call.attrs, [a.checked_type for a in call.args], call.checked_type).operations


def constant_bytes(constant: Constant) -> int:
    """The bytes of a constant."""
    return sum(b.bytes for b in boundaries("", constant.checked_type))
