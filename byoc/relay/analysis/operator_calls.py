"""The calls of operators: which operator it is, where the call came from, and its type by the operator's relation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeGuard, TypeVar

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.traits import ProductForm, Traits
from byoc.ir.types import TensorType, Type, TypeCall, contains_type, tensor_types
from byoc.relay.expr import Call

T = TypeVar("T")


def once_per_kind(rule: Callable[[Call], T]) -> Callable[[Call], T]:
    """*rule*, asked once for all calls that are alike: networks repeat their layers.

    It looks at the operator, the attributes and the types of a typed call alone. Calls on tuples, and calls whose
    attributes have no hash, are asked each by itself.
    """
    known: dict[tuple[object, ...], T] = {}

    def asked(call: Call) -> T:
        types = [arg.checked_type for arg in call.args]
        if not all([type(ty) is TensorType for ty in types]):
            return rule(call)
        key = (call.op, call.attrs, call.checked_type, *types)
        try:
            if key not in known:
                known[key] = rule(call)
            return known[key]
        except TypeError:  # no hash, or the rule's own error, which comes again
            return rule(call)

    return asked


def op_name(expr: RelayExpr) -> str | None:
    """The name of the operator that *expr* calls; None for anything else."""
    return expr.op.name if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def calls(expr: RelayExpr, *names: str) -> TypeGuard[Call]:
    """True for a call of one of the operators *names*."""
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def traits_of(expr: RelayExpr) -> Traits | None:
    """What the operator that *expr* calls is; None for anything else."""
    return expr.op.traits if isinstance(expr, Call) and isinstance(expr.op, Op) else None


def is_plain_product(expr: RelayExpr, form: ProductForm) -> TypeGuard[Call]:
    """True for a call of an operator that computes a product of that *form* on plain numbers."""
    traits = traits_of(expr)
    return traits is not None and traits.product is form and not traits.quantized


def is_symbolic(ty: Type) -> bool:
    """Whether every dimension of *ty*, which holds no sequence, has a number or a name."""
    return not contains_type(ty, TypeCall) and all(t.is_symbolic for t in tensor_types(ty))


def makes_sizes(call: Call) -> bool:
    """Whether a typed call of an operator gives sizes without names, of operands whose sizes have names or numbers."""
    result = call.checked_type
    if not isinstance(call.op, Op) or contains_type(result, TypeCall) or is_symbolic(result):
        return False
    return all(is_symbolic(a.checked_type) for a in call.args)


def carries_one(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a typed call whose result, a tensor, has elements of its one operand, a tensor, and no others.

    What is done to each element, and keeps their order, may be done before or behind it.
    """
    if not isinstance(expr, Call) or not isinstance(expr.op, Op):
        return False
    if not expr.op.traits.carries or len(expr.args) != 1:
        return False
    types = expr.args[0].checked_type_, expr.checked_type_
    return all(isinstance(ty, TensorType) for ty in types)


def moves_one(expr: RelayExpr) -> TypeGuard[Call]:
    """True for a call that :func:`carries_one`, whatever the elements hold: any function of each may change places."""
    traits = traits_of(expr)
    return traits is not None and carries_one(expr) and not traits.chooses


def located(expr: RelayExpr) -> str:
    """`` (node Conv_12)`` for an expression that came from one, else nothing."""
    names = span_names(expr.span)
    return f" (node {', '.join(names)})" if names else ""


def infer_op_call(call: Call, op: Op, types: Sequence[Type]) -> Type:
    """The type of *call* of *op* on arguments of *types*.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    if op.rel is None:
        raise TypeInferenceError(f"{op.name}: no type relation is registered for this operator{located(call)}")
    if len(call.args) != op.num_inputs and not op.variadic:
        raise TypeInferenceError(
            f"{op.name}: takes {op.num_inputs} inputs ({', '.join(op.input_names)}), "
            f"got {len(call.args)}{located(call)}"
        )
    if op.attrs_type is not None and not isinstance(call.attrs, op.attrs_type):
        raise TypeInferenceError(
            f"{op.name}: takes attributes {op.attrs_type.__name__}, got {type(call.attrs).__name__}{located(call)}"
        )
    try:
        return op.rel(types, call.attrs)
    except UserError as error:
        raise TypeInferenceError(f"{op.name}: {error}; inputs: {_texts(types)}{located(call)}") from error
    except AttributeError as error:
        if all(isinstance(ty, TensorType) for ty in types):
            raise
        raise TypeInferenceError(
            f"{op.name}: a tensor is given where a tuple is expected, or the reverse; "
            f"inputs: {_texts(types)}{located(call)}"
        ) from error


def _texts(types: Sequence[Type]) -> str:
    return ", ".join(map(repr, types))
