"""How calls of operators are made and defined, and the global functions behind Python's operators on expressions.

Every builder function (``relay.add``, ``relay.nn.conv2d``, …) ends in :func:`make_call`, so that the operator, the
number of its inputs and the class of its attributes are checked in one place. Source: ``tvm.relay.op``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from byoc import te
from byoc.errors import InternalError, UserError
from byoc.ir.attrs import Attrs, as_int, as_list
from byoc.ir.dims import IntImm
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, get_op
from byoc.ir.registry import register_func
from byoc.ir.size_var import SizeExpr
from byoc.ir.span import AnySpan
from byoc.ir.types import TensorType, Type, tensor_types
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, Var, constant
from byoc.runtime.core.ndarray import NDArray

Operand = RelayExpr | int | float | bool | np.ndarray | np.generic | NDArray


def make_call(op_name: str, args: Sequence[RelayExpr], attrs: Attrs | None = None, span: AnySpan | None = None) -> Call:
    """The call of operator *op_name* on *args*.

    Raises RegistryError for an unknown operator, UserError for a wrong number of inputs or class of attributes.
    """
    op = get_op(op_name)
    if op.rel is not None and len(args) != op.num_inputs and not op.variadic:
        raise UserError(f"{op_name} takes {op.num_inputs} inputs ({', '.join(op.input_names)}), got {len(args)}")
    if op.attrs_type is not None and not isinstance(attrs, op.attrs_type):
        raise UserError(f"{op_name} takes attributes {op.attrs_type.__name__}, got {type(attrs).__name__}")
    return Call(op, args, attrs, span=span)


def known_dtype(value: object) -> str | None:
    """The dtype of *value* where it is a tensor whose type is known, or follows from its typed arguments; else None."""
    if isinstance(value, Call) and value.checked_type_ is None and isinstance(value.op, Op) and value.op.rel:
        if all(arg.checked_type_ is not None for arg in value.args):  # one step alone, so that chains stay linear
            infer_expr(value)
    ty = value.checked_type_ if isinstance(value, RelayExpr) else None
    return ty.dtype if isinstance(ty, TensorType) else None


def as_expr(value: Operand, dtype: str | None = None) -> RelayExpr:
    """*value* itself if it is an expression; a number becomes a constant of *dtype*, or of float32, int32 or bool.

    Arrays keep their own dtype. Raises UserError for anything that is not a tensor.
    """
    if isinstance(value, RelayExpr):
        return value
    if isinstance(value, (bool, int, float)):
        return constant(value, dtype)
    if isinstance(value, (np.ndarray, np.generic, NDArray)):
        return constant(value)
    raise UserError(f"an operand is an expression, a number or an array, got {type(value).__name__}: {value!r}")


def as_tuple_expr(data: RelayExpr | Iterable[RelayExpr], what: str) -> RelayExpr:
    """*data* as one expression of tuple type: a list becomes a Tuple. Raises UserError for an empty list."""
    if isinstance(data, RelayExpr):
        return data
    fields = [as_expr(field) for field in data]
    if not fields:
        raise UserError(f"{what} needs at least one tensor, got none")
    return Tuple(fields)


def make_binary(op_name: str, lhs: Operand, rhs: Operand, span: AnySpan | None = None) -> Call:
    """The call of a binary operator; a Python number takes the dtype of the other side."""
    if isinstance(lhs, RelayExpr) and isinstance(rhs, RelayExpr):
        return make_call(op_name, [lhs, rhs], None, span)
    return make_call(op_name, [as_expr(lhs, known_dtype(rhs)), as_expr(rhs, known_dtype(lhs))], None, span)


def constant_ints(value: object) -> tuple[int, ...] | None:
    """The numbers of a Constant, or of a list of ints; None for an expression that is not known when compiling.

    Sizes as variables (``te.size_var``) are left among them.
    """
    if isinstance(value, Constant):
        return tuple(int(v) for v in value.data.numpy().reshape(-1))
    if isinstance(value, RelayExpr):
        return None
    if isinstance(value, (int, np.integer)):
        return (int(value),)
    if isinstance(value, (NDArray, np.ndarray)):
        return tuple(int(v) for v in np.asarray(value).reshape(-1))
    try:
        return tuple([_constant_int(v) for v in as_list(value)])
    except TypeError:
        raise UserError(f"expected an int, a list of ints or an expression, got {value!r}") from None


def in_dtype_of(value: object, numbers: Sequence[int]) -> tuple[int, ...]:
    """*numbers*, which :func:`constant_ints` read, as dimensions of the dtype of a constant, as Relay has them."""
    if isinstance(value, Constant) and value.data.dtype == "int64":
        return tuple(IntImm("int64", n) for n in numbers)
    return tuple(numbers)


def _constant_int(value: object) -> int:
    if isinstance(value, Constant):
        return int(value.data.numpy().reshape(()))
    if isinstance(value, SizeExpr):
        return value  # type: ignore[return-value]
    return as_int(value)


def _binary_overload(op_name: str) -> Callable[[Operand, Operand], Call]:
    return lambda lhs, rhs: make_binary(op_name, lhs, rhs)


for _name in ("add", "subtract", "multiply", "divide", "less", "less_equal", "greater", "greater_equal"):
    register_func(f"relay.op.overload.{_name}", _binary_overload(_name))


@register_func("relay.op.overload.negative")
def _negative(operand: RelayExpr) -> Call:
    return make_call("negative", [operand])


@register_func("relay.ir.call")
def _call(callee: RelayExpr, args: Sequence[RelayExpr]) -> Call:
    return Call(callee, args)


@register_func("relay.ir.tuple_get_item")
def _tuple_get_item(tuple_value: RelayExpr, index: int) -> TupleGetItem:
    if not isinstance(index, (int, np.integer)):
        raise UserError(f"a tuple is indexed with an int, got {index!r}")
    return TupleGetItem(tuple_value, int(index))


@register_func("relay.ir.function_of")
def function_of(expr: RelayExpr) -> Function:
    """A function whose body is *expr* and whose parameters are its free variables, in order of first use."""
    from byoc.relay.analysis.variables import free_vars

    params: list[Var] = free_vars(expr)
    return Function(params, expr)


# The tensor expression of one call: placeholders for its inputs, and its outputs by the operator's definition. A call
# without one, or with a dimension that is dynamic and unnamed, runs on its numpy kernel (:func:`is_definable`).


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
