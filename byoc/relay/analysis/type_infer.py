"""Type inference over a function or a module, iteratively and forwards.

Ensures: every expression under the root has a ``checked_type``, kept in the node itself. A parameter without an
annotation gets the type of its argument where the function is called, as the functions of MergeComposite need.
Source: Relay's InferType.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from byoc.errors import TypeInferenceError, UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import span_names
from byoc.ir.types import Any, FuncType, RefType, TensorType, TupleType, Type
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
)
from byoc.relay.traverse import children, post_order

UNIT = TupleType(())


def located(expr: RelayExpr) -> str:
    """`` (node Conv_12)`` for an expression that came from one, else nothing."""
    names = span_names(expr.span)
    return f" (node {', '.join(names)})" if names else ""


def infer_expr(root: RelayExpr, mod: IRModule | None = None) -> Type:
    """The type of *root*, inferring whatever below it has none yet.

    Raises TypeInferenceError naming the operator, the node and the types that do not fit.
    """
    if _is_typed(root, mod):
        return root.checked_type
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
                raise TypeInferenceError(
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
    if func.ret_type is None or any(p.type_annotation is None for p in func.params):
        return None
    return FuncType([p.type_annotation for p in func.params], func.ret_type, func.type_params)  # type: ignore[misc]


def _bind_params(call: Call, callee: Function) -> None:
    params = callee.params
    if len(params) != len(call.args):
        raise TypeInferenceError(
            f"a function of {len(params)} parameters is called with {len(call.args)} arguments{located(call)}"
        )
    for param, arg in zip(params, call.args, strict=True):
        if param._checked_type is None:
            param._checked_type = arg.checked_type
        elif not is_assignable(arg.checked_type, param._checked_type):
            raise TypeInferenceError(
                f"parameter %{param.name_hint} is declared as {param._checked_type}, its argument is "
                f"{arg.checked_type}{located(call)}"
            )


def is_assignable(value: Type, declared: Type) -> bool:
    """True when *value* can stand where *declared* is expected; a dynamic dimension fits any size."""
    if isinstance(value, TensorType) and isinstance(declared, TensorType):
        return (
            value.dtype == declared.dtype
            and value.ndim == declared.ndim
            and all(
                a == b or not (type(a) is int and type(b) is int)
                for a, b in zip(value.shape, declared.shape, strict=True)
            )
        )
    if isinstance(value, TupleType) and isinstance(declared, TupleType):
        return len(value.fields) == len(declared.fields) and all(
            is_assignable(a, b) for a, b in zip(value.fields, declared.fields, strict=True)
        )
    return value == declared


def _infer_call(call: Call, mod: IRModule | None) -> Type:
    if isinstance(call.op, Op):
        return _infer_op_call(call, call.op)
    callee = call.op.checked_type
    if not isinstance(callee, FuncType):
        raise TypeInferenceError(f"a value of type {callee} is called{located(call)}: only functions can be")
    for index, (arg, declared) in enumerate(zip(call.args, callee.arg_types, strict=False)):
        if not is_assignable(arg.checked_type, declared):
            raise TypeInferenceError(
                f"argument {index} is {arg.checked_type} where {declared} is expected{located(call)}"
            )
    if len(call.args) != len(callee.arg_types):
        raise TypeInferenceError(
            f"a function of {len(callee.arg_types)} parameters is called with {len(call.args)} arguments{located(call)}"
        )
    return callee.ret_type


def _infer_op_call(call: Call, op: Op) -> Type:
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
    types = [arg.checked_type for arg in call.args]
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


def _infer_function(func: Function, mod: IRModule | None) -> Type:
    body = func.body.checked_type
    if func.ret_type is not None and not is_assignable(body, func.ret_type):
        raise TypeInferenceError(f"a function is declared to return {func.ret_type}, its body is {body}{located(func)}")
    return FuncType([p.checked_type for p in func.params], func.ret_type or body, func.type_params)


def _infer_global(var: GlobalVar, mod: IRModule | None) -> Type:
    if mod is None or var not in mod:
        raise TypeInferenceError(f"@{var.name_hint} is not a function of this module")
    func = mod[var]
    if func._checked_type is not None:
        return func._checked_type
    declared = _declared_type(func) if isinstance(func, Function) else None
    if declared is not None:
        return declared
    raise TypeInferenceError(f"@{var.name_hint} calls itself or is used before it is typed: declare its return type")


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
        raise TypeInferenceError(f"the branches of an if differ: {left} and {right}{located(node)}")
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
    raise TypeInferenceError(f"variable %{var.name_hint} has no type: annotate it with relay.var(name, shape=…)")


def _reference(expr: RelayExpr, node: RelayExpr) -> RefType:
    ty = expr.checked_type
    if not isinstance(ty, RefType):
        raise TypeInferenceError(f"a reference is expected, got {ty}{located(node)}")
    return ty


_RULES: dict[type, Callable[..., Type]] = {
    Op: lambda op, mod: UNIT,
    GlobalVar: _infer_global,
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


def infer_function(func: Function, mod: IRModule | None = None) -> Function:
    """*func* with every node typed, in place."""
    infer_expr(func, mod)
    return func


def infer_module(mod: IRModule) -> IRModule:
    """*mod* with every function typed, callees before callers."""
    # a function whose parameters have no types gets them from its callers, so it waits for them
    known = [v for v in mod if not _waits_for_caller(mod[v])]
    waiting = [v for v in mod if _waits_for_caller(mod[v])]
    pending = [(var, False) for var in (*reversed(waiting), *reversed(known))]
    done: set[GlobalVar] = set()
    while pending:
        var, expanded = pending.pop()
        func = mod[var]
        if expanded:
            if func._checked_type is None or func.body._checked_type is None:
                infer_expr(func, mod)
            continue
        if var in done:
            continue
        done.add(var)
        pending.append((var, True))
        for callee in _callees(func):
            if callee in mod and callee not in done and not _waits_for_caller(mod[callee]):
                pending.append((callee, False))
    return mod


def _waits_for_caller(func: RelayExpr) -> bool:
    return isinstance(func, Function) and any(p._checked_type is None for p in func.params)


def _callees(func: RelayExpr) -> list[GlobalVar]:
    return [node for node in post_order(func) if isinstance(node, GlobalVar)]
