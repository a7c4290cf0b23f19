"""How a rule is registered and found, and what rules of all families ask of a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import UserError
from byoc.ir.attrs import as_int
from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op, register_op_attr
from byoc.ir.types import TensorType
from byoc.relay import op
from byoc.relay.analysis.operator_calls import located
from byoc.relay.expr import Call, Constant, constant

GradientRule = Callable[[Call, RelayExpr], Sequence[RelayExpr]]
KEY = "FPrimalGradient"


def gradient(*names: str) -> Callable[[GradientRule], GradientRule]:
    """Register a rule for the operators called *names*, as a decorator."""

    def register(rule: GradientRule) -> GradientRule:
        for name in names:
            register_op_attr(name, KEY, rule)
        return rule

    return register


def gradient_rule(call: Call) -> GradientRule:
    """The rule of the operator that is called. Raises UserError where it has none."""
    rule = call.op.get_attr(KEY) if isinstance(call.op, Op) else None
    if rule is None:
        name = call.op.name if isinstance(call.op, Op) else type(call.op).__name__
        raise UserError(
            f"input has operators with missing gradients: {name}{located(call)}; give it one with "
            f"relay.op.register_gradient({name!r}, rule)"
        )
    result: GradientRule = rule
    return result


def tensor(expr: RelayExpr) -> TensorType:
    """The type of *expr*. Raises UserError for what is no tensor."""
    ty = expr.checked_type
    if not isinstance(ty, TensorType):
        raise UserError(f"a gradient is asked of a {ty}, which is no tensor")
    return ty


def shape(expr: RelayExpr) -> tuple[int, ...]:
    """The shape of *expr* in numbers. Raises UserError for a dynamic one."""
    return tuple(int(d) for d in tensor(expr).concrete_shape)


def scalar(value: float, like: RelayExpr) -> Constant:
    """*value* as a constant of the dtype of *like*."""
    return constant(value, tensor(like).dtype)


def summed_like(grad: RelayExpr, arg: RelayExpr, call: Call) -> RelayExpr:
    """*grad*, which has the shape of *call*, summed over the axes along which *arg* was broadcast.

    Where there are none, ``collapse_sum_like`` is there all the same, as in Relay's rules: SimplifyExpr drops it.
    """
    return op.collapse_sum_like(grad, arg)


def axes_of(axis: object, ndim: int, exclude: object = False) -> list[int]:
    """The axes that a reduction runs over, none of them negative, in order."""
    if axis is None:
        chosen = list(range(ndim))
    else:
        given = axis if isinstance(axis, (tuple, list)) else [axis]
        chosen = sorted({as_int(a) % max(ndim, 1) for a in given})
    return [a for a in range(ndim) if a not in chosen] if exclude else chosen
