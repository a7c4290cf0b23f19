"""What is known of an expression, said to readers and type checkers: its type, its class, the class of its attributes.

Each function gives what it was given, or raises UserError in one sentence.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from byoc.errors import UserError
from byoc.ir.attrs import Attrs
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.types import FuncType, TensorType, TupleType, Type
from byoc.relay.expr import Call, Constant, Function, Let, TupleGetItem, Var

A = TypeVar("A", bound=Attrs)


def tensor_type(expr: RelayExpr) -> TensorType:
    """The inferred type of *expr*, which is a tensor. Raises UserError for another, ValueError before inference."""
    ty = expr.checked_type
    if not isinstance(ty, TensorType):
        raise UserError(f"a tensor is needed, got an expression of type {ty}")
    return ty


def tuple_type(expr: RelayExpr) -> TupleType:
    """The inferred type of *expr*, which is a tuple. Raises UserError for another, ValueError before inference."""
    ty = expr.checked_type
    if not isinstance(ty, TupleType):
        raise UserError(f"a tuple is needed, got an expression of type {ty}")
    return ty


def as_tensor_type(ty: Type) -> TensorType:
    """*ty*, which is that of a tensor. Raises UserError for another."""
    if not isinstance(ty, TensorType):
        raise UserError(f"the type of a tensor is needed, got {ty}")
    return ty


def as_tuple_type(ty: Type) -> TupleType:
    """*ty*, which is that of a tuple. Raises UserError for another."""
    if not isinstance(ty, TupleType):
        raise UserError(f"the type of a tuple is needed, got {ty}")
    return ty


def as_function_type(ty: Type) -> FuncType:
    """*ty*, which is that of a function. Raises UserError for another."""
    if not isinstance(ty, FuncType):
        raise UserError(f"the type of a function is needed, got {ty}")
    return ty


def operator_of(expr: RelayExpr) -> Op:
    """The operator that *expr* calls. Raises UserError where it calls something else, or is no call."""
    op = expr.op if isinstance(expr, Call) else expr
    if not isinstance(expr, Call) or not isinstance(op, Op):
        raise UserError(f"a call of an operator is needed, got a {type(op).__name__}")
    return op


def as_call(expr: RelayExpr) -> Call:
    """*expr*, which is a call. Raises UserError for another."""
    if not isinstance(expr, Call):
        raise UserError(f"a call is needed, got a {type(expr).__name__}")
    return expr


def as_item(expr: RelayExpr) -> TupleGetItem:
    """*expr*, which is a field of a tuple. Raises UserError for another."""
    if not isinstance(expr, TupleGetItem):
        raise UserError(f"a field of a tuple is needed, got a {type(expr).__name__}")
    return expr


def as_constant(expr: RelayExpr) -> Constant:
    """*expr*, which is a constant. Raises UserError for another."""
    if not isinstance(expr, Constant):
        raise UserError(f"a constant is needed, got a {type(expr).__name__}")
    return expr


def as_let(expr: RelayExpr) -> Let:
    """*expr*, which is a let. Raises UserError for another."""
    if not isinstance(expr, Let):
        raise UserError(f"a let is needed, got a {type(expr).__name__}")
    return expr


def as_var(expr: RelayExpr) -> Var:
    """*expr*, which is a local variable. Raises UserError for another."""
    if not isinstance(expr, Var):
        raise UserError(f"a variable is needed, got a {type(expr).__name__}")
    return expr


def as_function(expr: RelayExpr) -> Function:
    """*expr*, which is a function. Raises UserError for another."""
    if not isinstance(expr, Function):
        raise UserError(f"a function is needed, got a {type(expr).__name__}")
    return expr


def attrs_of(call: Call, kind: type[A]) -> A:
    """The attributes of *call*, which are of the class *kind*. Raises UserError for others."""
    attrs: object = call.attrs
    if not isinstance(attrs, kind):
        raise UserError(f"a call with {kind.__name__} is needed, got {type(attrs).__name__}")
    return attrs


def channel_values(constant: Constant, axis: int, result: TensorType) -> np.ndarray | None:
    """*constant* as one number per channel along *axis* of *result*, or None where it varies elsewhere.

    A scalar is every channel's number. The size of the channel axis must be known. An infinite scale or a NaN is left
    where it is: in the weights, what is infinite is added up before the product and not after it, and may be a NaN.
    """
    channels = result.shape[axis]
    data = constant.data.numpy()
    if not isinstance(channels, int) or data.ndim > result.ndim or not np.issubdtype(data.dtype, np.floating):
        return None
    if not np.isfinite(data).all():
        return None
    shape = (1,) * (result.ndim - data.ndim) + data.shape
    if any(size != 1 for k, size in enumerate(shape) if k != axis) or shape[axis] not in (1, channels):
        return None
    return np.broadcast_to(data.reshape(-1), (channels,)).copy()
