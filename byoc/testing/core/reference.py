"""The reference: each operator by its numpy kernel, in its own types and in float64.

In float64, every value of a narrower floating-point type is widened after the operator that gave it, so that only the
roundings that the model itself asks for remain. An operator whose kernel does not take that computes in its own types.
Functions are dataflow: what a region, or the host's share of a model, is made of.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import TensorType, TupleType, Type, tensor_types
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.interpreter.operators import run_operator
from byoc.relay.interpreter.values import Value
from byoc.relay.traverse import children, post_order
from byoc.runtime.core.ndarray import numpy_dtype
from byoc.testing.core.difference import is_float

Data = np.ndarray | list["Data"]  # a tensor, or a tuple
Values = dict[RelayExpr, Data]


def outputs_of(
    function: Function, arrays: Sequence[np.ndarray], wide: bool, mod: IRModule | None = None
) -> list[np.ndarray]:
    """The outputs of *function* on its inputs (tuples flattened), as arrays of the types that it says.

    Args:
        function: a typed function.
        arrays: an array for each tensor of its parameters.
        wide: compute in float64.
        mod: the functions that it calls by name.

    Raises:
        UserError: it is not dataflow, or a kernel refuses.
    """
    value = node_values(function, arrays, wide, mod)[function.body]
    return flat(narrowed(value, function.body.checked_type))


def node_values(function: Function, arrays: Sequence[np.ndarray], wide: bool, mod: IRModule | None = None) -> Values:
    """The value of each node of *function*, functions that it calls not entered; see :func:`outputs_of`."""
    given = [_wide(a) for a in arrays] if wide else list(arrays)
    values: Values = {}
    for param in function.params:
        values[param] = _taken(param.checked_type, given)
    return _evaluated(function.body, values, wide, mod)


def _evaluated(body: RelayExpr, values: Values, wide: bool, mod: IRModule | None) -> Values:
    for node in post_order(body, _operands):
        if node not in values:
            rule = _RULES.get(type(node))
            if rule is None:
                raise UserError(f"a {type(node).__name__} is not dataflow: the reference computes regions alone")
            values[node] = rule(node, values, wide, mod)
    return values


def _operands(node: RelayExpr) -> Sequence[RelayExpr]:
    if isinstance(node, Call):
        return node.args
    return () if isinstance(node, (Function, GlobalVar)) else children(node)


def _call(call: Call, values: Values, wide: bool, mod: IRModule | None) -> Data:
    args = [values[a] for a in call.args]
    if isinstance(call.op, Op):
        return _operator(call, args, wide)
    callee = mod[call.op.name_hint] if isinstance(call.op, GlobalVar) and mod is not None else call.op
    if not isinstance(callee, Function):
        raise UserError(f"a call of a {type(callee).__name__} is not dataflow: the reference computes regions alone")
    inner: Values = dict(zip(callee.params, args, strict=True))
    return _evaluated(callee.body, inner, wide, mod)[callee.body]


def _operator(call: Call, args: Sequence[Data], wide: bool) -> Data:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's about empty slices
        if wide:
            try:
                found = _widened(_run(call, args))
                if _fits(found, call.checked_type):
                    return found
            except Exception:  # kernels raise what they please for a dtype that they do not know
                pass
            args = [narrowed(v, a.checked_type) for v, a in zip(args, call.args, strict=True)]
            return _widened(_run(call, args))
        return _run(call, args)


def _fits(value: Data, ty: Type) -> bool:
    """Whether *value* has the shapes of *ty*: the kernel of an operator on bits gives others for wider numbers."""
    return all(
        not t.is_static or a.shape == t.concrete_shape for a, t in zip(flat(value), tensor_types(ty), strict=True)
    )


def _run(call: Call, args: Sequence[Data]) -> Data:
    found = run_operator(call, cast("Sequence[Value]", args))
    return cast("Data", found)  # of an operator: tensors, and tuples of them


_RULES: dict[type, Callable[..., Data]] = {
    Call: _call,
    Constant: lambda node, values, wide, mod: _wide(node.data.numpy()) if wide else node.data.numpy(),
    Tuple: lambda node, values, wide, mod: [values[f] for f in node.fields],
    TupleGetItem: lambda node, values, wide, mod: values[node.tuple_value][node.index],
}


def _taken(ty: Type, arrays: list[np.ndarray]) -> Data:
    """The value of a parameter of type *ty*, taken off the front of *arrays*."""
    return [_taken(f, arrays) for f in ty.fields] if isinstance(ty, TupleType) else arrays.pop(0)


def flat(value: Data) -> list[np.ndarray]:
    """The tensors of a value, tuples flattened."""
    return [a for v in value for a in flat(v)] if isinstance(value, list) else [value]


def narrowed(value: Data, ty: Type) -> Data:
    """*value*, with floats in the types that *ty* says."""
    if isinstance(ty, TupleType):
        assert isinstance(value, list)
        return [narrowed(v, f) for v, f in zip(value, ty.fields, strict=True)]
    assert isinstance(value, np.ndarray)
    if not isinstance(ty, TensorType) or not is_float(value.dtype):
        return value
    wanted = numpy_dtype(ty.dtype)
    with np.errstate(all="ignore"):
        return value.astype(wanted) if is_float(wanted) and value.dtype != wanted else value


def _wide(value: np.ndarray) -> np.ndarray:
    return value.astype(np.float64) if is_float(value.dtype) and value.dtype != np.float64 else value


def _widened(value: Data) -> Data:
    return [_widened(v) for v in value] if isinstance(value, list) else _wide(np.asarray(value))
