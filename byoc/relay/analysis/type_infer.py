"""Type inference over one expression, iteratively and forwards: what dataflow needs, at one visit a node.

What it cannot do (untyped variables, generic functions, algebraic data) raises NeedsSolvingError, which
:mod:`byoc.relay.analysis.module_types` answers by unification.

Ensures: every expression under the root has a ``checked_type``, kept in the node itself. A parameter without an
annotation gets the type of its argument where the function is called, as the functions of MergeComposite need.
Source: Relay's InferType.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import all_given
from byoc.ir.expr import Constructor, GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.types import Any, FuncType, RefType, TensorType, TupleType, Type, TypeCall
from byoc.relay.adt import Match
from byoc.relay.analysis.operator_calls import infer_op_call, located
from byoc.relay.expr import (
    Call,
    Constant,
    Function,
    If,
    Let,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    TupleGetItem,
    Var,
    is_complete,
)
from byoc.relay.traverse import children

UNIT = TupleType(())


class NeedsSolvingError(TypeInferenceError):
    """What forward inference alone cannot type; unification may."""


def infer_expr(root: RelayExpr, mod: IRModule | None = None) -> Type:
    """The type of *root*, inferring whatever below it has none yet.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    if type(root) is Call and type(root.op) is Op:  # one call on typed arguments: what builders and importers ask
        if root._checked_type is None and all([arg._checked_type is not None for arg in root.args]):
            root._checked_type = _infer_call(root, mod)
        if root._checked_type is not None:
            return root._checked_type
    known = root._checked_type
    if known is not None and (type(root) is Var or type(root) is Constant or _is_typed(root, mod)):
        return known
    stack: list[tuple[RelayExpr, bool]] = [(root, False)]
    open_functions: set[RelayExpr] = set()
    while stack:
        node, expanded = stack.pop()
        if _is_typed(node, mod):
            continue
        if expanded:
            node._checked_type = _RULES[type(node)](node, mod)
            open_functions.discard(node)
            continue
        if isinstance(node, Function):
            open_functions.add(node)
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(_needed(node, mod, open_functions)))
    return root.checked_type


def _is_typed(node: RelayExpr, mod: IRModule | None) -> bool:
    """True when *node* has its type. What a global name stands for may change with the module: it is asked again."""
    if isinstance(node, GlobalVar):
        return node._checked_type is not None and (mod is None or node not in mod)
    if isinstance(node, Function):
        return node._checked_type is not None and node.body._checked_type is not None
    return node._checked_type is not None


def _needed(node: RelayExpr, mod: IRModule | None, open_functions: set[RelayExpr]) -> Sequence[RelayExpr]:
    """What must be typed before *node*: a called function's body waits until its parameters got their types."""
    callee = _called_function(node, mod)
    if isinstance(node, Call) and callee is not None and callee not in open_functions:
        if any(arg._checked_type is None for arg in node.args):
            return (*node.args, node)
        _bind_params(node, callee)
        return (callee,) if callee is node.op else (callee, node.op)
    if isinstance(node, Function):
        for param in node.params:
            if param._checked_type is None:
                raise NeedsSolvingError(
                    f"parameter %{param.name_hint} of a function has no type{located(node)}: annotate it with "
                    "relay.var(name, shape=…), or call the function"
                )
        return (node.body,)
    if isinstance(node, Let):
        return _needed_by_let(node)
    return children(node)


def _called_function(node: RelayExpr, mod: IRModule | None) -> Function | None:
    """The function that a call is of, where it stands in the call or in the module."""
    callee = node.op if isinstance(node, Call) else None
    if isinstance(callee, GlobalVar) and mod is not None and callee in mod:
        callee = mod[callee]
    return callee if isinstance(callee, Function) else None


def _needed_by_let(let: Let) -> Sequence[RelayExpr]:
    """The value, then the body; a function that may call itself is typed by its declaration while it is inferred."""
    declared = _declared_type(let.value) if isinstance(let.value, Function) else None
    if let.variable._checked_type is None and declared is not None:
        let.variable._checked_type = declared
    if let.value._checked_type is None:
        return (let.value, let)
    value = let.value.checked_type
    if let.variable._checked_type is None:
        let.variable._checked_type = value
    elif not is_assignable(value, let.variable._checked_type):
        raise TypeInferenceError(
            f"%{let.variable.name_hint} is declared as {let.variable._checked_type}, its value is {value}{located(let)}"
        )
    return (let.body,)


def _declared_type(func: Function) -> FuncType | None:
    """The type of a function by its annotations alone; None where one is missing."""
    result, params = func.declared_ret_type, [p.type_annotation for p in func.params]
    if result is None or not all_given(params):
        return None
    return FuncType(params, result, func.type_params)


def _bind_params(call: Call, callee: Function) -> None:
    params = callee.params
    if callee.type_params:
        raise NeedsSolvingError(f"a generic function is called{located(call)}")
    if len(params) != len(call.args):
        raise TypeInferenceError(
            f"a function of {len(params)} parameters is called with {len(call.args)} arguments{located(call)}"
        )
    for param, arg in zip(params, call.args, strict=True):
        if param._checked_type is None:
            param._checked_type = arg.checked_type
        elif not is_assignable(arg.checked_type, param._checked_type):
            _check_not_generic(arg, call)
            raise TypeInferenceError(
                f"parameter %{param.name_hint} is declared as {param._checked_type}, its argument is "
                f"{arg.checked_type}{located(call)}",
                (arg.checked_type, param._checked_type),
            )


def _check_not_generic(arg: RelayExpr, call: Call) -> None:
    """Raises NeedsSolvingError for a generic function: of which type it is here, unification says."""
    if isinstance(arg.checked_type, FuncType) and arg.checked_type.type_params:
        raise NeedsSolvingError(f"a generic function is an argument{located(call)}")


def is_assignable(value: Type, declared: Type) -> bool:
    """True when *value* can stand where *declared* is expected; a dynamic dimension fits any size."""
    if isinstance(value, TensorType) and isinstance(declared, TensorType):
        return (
            value.dtype == declared.dtype
            and value.ndim == declared.ndim
            and all(
                a == b or not (isinstance(a, int) and isinstance(b, int))
                for a, b in zip(value.shape, declared.shape, strict=True)
            )
        )
    if isinstance(value, TupleType) and isinstance(declared, TupleType):
        return len(value.fields) == len(declared.fields) and all(
            is_assignable(a, b) for a, b in zip(value.fields, declared.fields, strict=True)
        )
    if isinstance(value, TypeCall) and isinstance(declared, TypeCall) and len(value.args) == len(declared.args):
        # UNIT as an argument is of data that holds nothing of it: an empty sequence is one of any elements
        fits = (a == UNIT or is_assignable(a, b) for a, b in zip(value.args, declared.args, strict=True))
        return value.func == declared.func and all(fits)
    return value == declared


def _infer_call(call: Call, mod: IRModule | None) -> Type:
    if isinstance(call.op, Op):
        return infer_op_call(call, call.op, [arg.checked_type for arg in call.args])
    callee = call.op.checked_type
    if not isinstance(callee, FuncType):
        raise TypeInferenceError(f"a value of type {callee} is called{located(call)}: only functions can be")
    if callee.type_params or not is_complete(callee):
        raise NeedsSolvingError(f"a generic function is called{located(call)}")
    for index, (arg, declared) in enumerate(zip(call.args, callee.arg_types, strict=False)):
        if not is_assignable(arg.checked_type, declared):
            _check_not_generic(arg, call)
            raise TypeInferenceError(
                f"argument {index} is {arg.checked_type} where {declared} is expected{located(call)}",
                (arg.checked_type, declared),
            )
    if len(call.args) != len(callee.arg_types):
        raise TypeInferenceError(
            f"a function of {len(callee.arg_types)} parameters is called with {len(call.args)} arguments{located(call)}"
        )
    return callee.ret_type


def _infer_function(func: Function, mod: IRModule | None) -> Type:
    body, declared = func.body.checked_type, func.declared_ret_type
    if declared is not None and not is_complete(declared):
        raise NeedsSolvingError(f"the result of a function is not declared{located(func)}")
    if declared is not None and not is_assignable(body, declared):
        if isinstance(body, FuncType) and body.type_params:
            raise NeedsSolvingError(f"a generic function is returned where {declared} is declared{located(func)}")
        raise TypeInferenceError(
            f"a function is declared to return {declared}, its body is {body}{located(func)}", (body, declared)
        )
    return FuncType([p.checked_type for p in func.params], declared or body, func.type_params)


def _infer_global(var: GlobalVar, mod: IRModule | None) -> Type:
    if mod is None or var not in mod:
        raise TypeInferenceError(f"@{var.name_hint} is not a function of this module")
    func = mod[var]
    if func._checked_type is not None:
        return func._checked_type
    declared = _declared_type(func) if isinstance(func, Function) else None
    if declared is not None:
        return declared
    raise NeedsSolvingError(f"@{var.name_hint} calls itself or is used before it is typed: declare its return type")


def _infer_item(item: TupleGetItem, mod: IRModule | None) -> Type:
    ty = item.tuple_value.checked_type
    if not isinstance(ty, TupleType) or not 0 <= item.index < len(ty.fields):
        raise TypeInferenceError(f"there is no field {item.index} in {ty}{located(item)}")
    return ty.fields[item.index]


def _infer_if(node: If, mod: IRModule | None) -> Type:
    cond, left, right = (e.checked_type for e in (node.cond, node.true_branch, node.false_branch))
    if cond != TensorType((), "bool"):
        raise TypeInferenceError(f"the condition of an if is a scalar bool, got {cond}{located(node)}")
    if not is_assignable(left, right):
        raise TypeInferenceError(f"the branches of an if differ: {left} and {right}{located(node)}", (left, right))
    return _either(left, right)


def _either(left: Type, right: Type) -> Type:
    """The type of what may be of one or the other: dimensions that differ are unknown."""
    if isinstance(left, TensorType) and isinstance(right, TensorType):
        dims = [a if a == b else Any() for a, b in zip(left.shape, right.shape, strict=True)]
        return TensorType(dims, left.dtype)
    if isinstance(left, TupleType) and isinstance(right, TupleType):
        return TupleType([_either(a, b) for a, b in zip(left.fields, right.fields, strict=True)])
    return left


def _infer_var(var: Var, mod: IRModule | None) -> Type:
    raise NeedsSolvingError(f"variable %{var.name_hint} has no type: annotate it with relay.var(name, shape=…)")


def _reference(expr: RelayExpr, node: RelayExpr) -> RefType:
    ty = expr.checked_type
    if not isinstance(ty, RefType):
        raise TypeInferenceError(f"a reference is expected, got {ty}{located(node)}")
    return ty


def _needs_solving(node: RelayExpr, mod: IRModule | None) -> Type:
    raise NeedsSolvingError(f"a {type(node).__name__} is typed by unification{located(node)}")


_RULES: dict[type, Callable[..., Type]] = {
    Op: lambda op, mod: UNIT,
    GlobalVar: _infer_global,
    Constructor: _needs_solving,
    Match: _needs_solving,
    Var: _infer_var,
    Constant: lambda c, mod: TensorType(c.data.shape, c.data.dtype),
    Call: _infer_call,
    Function: _infer_function,
    Tuple: lambda t, mod: TupleType([f.checked_type for f in t.fields]),
    TupleGetItem: _infer_item,
    Let: lambda let, mod: let.body.checked_type,
    If: _infer_if,
    RefCreate: lambda r, mod: RefType(r.value.checked_type),
    RefRead: lambda r, mod: _reference(r.ref, r).value,
    RefWrite: lambda r, mod: UNIT,
}
