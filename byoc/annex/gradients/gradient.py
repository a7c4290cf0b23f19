"""Gradients of functions: ``gradient`` gives a function that returns the result and the gradients of the arguments.

The two differ in what they take and in what comes out: ``first_order`` takes straight-line code and gives a graph;
``higher_order`` takes closures, recursion, branches, references and algebraic data, and gives code with references
whose gradient may be taken again. Operators have rules (:mod:`byoc.annex.gradients.rules`). Source:
``relay.transform.gradient``.
"""

from __future__ import annotations

from byoc.annex.gradients.first_order_gradient import first_order_gradient
from byoc.annex.gradients.higher_order_gradient import higher_order_gradient
from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.types import TensorType, TupleType
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.expr import Function

_MODES = {"higher_order": higher_order_gradient, "first_order": first_order_gradient}


def gradient(expr: RelayExpr, mod: IRModule | None = None, mode: str = "higher_order") -> Function:
    """A function of the parameters of *expr* that returns ``(result, (gradient of each parameter, …))``.

    *expr* is a function of tensors, or the name of one in *mod*, to which ``higher_order`` adds the functions
    ``<name>_grad`` that it needs. A tuple as the result: ``higher_order`` takes the gradient of its first field,
    ``first_order`` of the sum of all. Raises UserError for an operator without a gradient and for what is no function
    of tensors. Source: ``relay.transform.gradient``.
    """
    if mode not in _MODES:
        raise UserError(f"unknown mode {mode!r} of gradient; there are {', '.join(_MODES)}")
    func = mod[expr] if isinstance(expr, GlobalVar) and mod is not None else expr
    if not isinstance(func, Function):
        raise UserError(f"gradient takes a function, got {type(func).__name__}")
    if func.type_params:
        raise UserError("gradient takes no generic function: bind its types first")
    typed = typed_expr(func, mod)
    assert isinstance(typed, Function)
    for param in typed.params:
        if not isinstance(param.checked_type, TensorType):
            raise UserError(f"input parameters need to be tensor: %{param.name_hint} is {param.checked_type}")
    made = _MODES[mode](typed, mod)
    grads = TupleType([p.checked_type for p in typed.params])
    result = TupleType([typed.body.checked_type, grads])
    return Function(made.params, made.body, result, span=func.span)
