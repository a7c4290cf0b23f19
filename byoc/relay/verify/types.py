"""Types inferred once more, beside those that the nodes have, and the form of calls.

Nothing is written into the nodes: a type that is not there is worked out and forgotten. What forward inference cannot
know (generic functions, algebraic data, references) is left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import all_given
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import OPS, Op
from byoc.ir.types import FuncType, TensorType, TupleType, Type
from byoc.relay.analysis.operator_calls import infer_op_call
from byoc.relay.analysis.type_infer import is_assignable
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem
from byoc.relay.verify.problem import ProblemError, place, title

Types = dict[RelayExpr, "Type | None"]


def check_types(order: Sequence[RelayExpr], mod: IRModule, name: str, known: Mapping[RelayExpr, Type | None]) -> Types:
    """The type of each node of *order*, where it can be known; *known* are those of nodes that were checked before.

    Raises ProblemError for a call of nothing, with arguments that do not fit, or a type that inference does not find.
    """
    types: Types = {}
    for node in order:
        kept = node._checked_type
        if kept is not None and known.get(node) is kept:
            types[node] = kept
            if type(node) is Call and type(node.op) is not Op:  # what it calls may be another now
                _check_call(node, types, mod, name)
            continue
        rule = _RULES.get(type(node))
        found = rule(node, types, mod, name) if rule is not None else None
        if kept is not None and found is not None and not _agree(found, kept):
            raise ProblemError(f"{place(node, name)} has the type {kept}, and inference finds {found}")
        types[node] = kept if kept is not None else found
    return types


def _agree(found: Type, kept: Type) -> bool:
    return not (_is_plain(found) and _is_plain(kept)) or is_assignable(found, kept)


def _is_plain(ty: Type | None) -> bool:
    """True for tensors and tuples of them: what a relation can say something about."""
    return type(ty) is TensorType or (type(ty) is TupleType and all(map(_is_plain, ty.fields)))


def _check_call(call: Call, types: Types, mod: IRModule, name: str) -> Type | None:
    callee = call.op
    if isinstance(callee, Op):
        return _check_operator(call, callee, types, name)
    func = callee
    if isinstance(callee, GlobalVar):
        if callee not in mod:
            raise ProblemError(f"{place(call, name)}: the module has no function of this name")
        func = mod[callee]
    ty = types.get(callee) if callee is func else func._checked_type
    if isinstance(func, Function) and len(func.params) != len(call.args):
        raise ProblemError(_arity(call, len(func.params), name))
    if isinstance(func, Function) and ty is None and not func.type_params:
        for param, arg in zip(func.params, call.args, strict=True):
            declared, given = param._checked_type, types.get(arg)
            if declared is not None and given is not None and not _agree(given, declared):
                raise ProblemError(f"{place(call, name)}: %{param.name_hint} is {declared}, and {given} is given")
    if not isinstance(ty, FuncType) or ty.type_params:
        return None
    if len(ty.arg_types) != len(call.args):
        raise ProblemError(_arity(call, len(ty.arg_types), name))
    for index, (arg, declared) in enumerate(zip(call.args, ty.arg_types, strict=True)):
        given = types.get(arg)
        if given is not None and not _agree(given, declared):
            raise ProblemError(f"{place(call, name)}: argument {index} is {given} where {declared} is expected")
    return ty.ret_type


def _arity(call: Call, wanted: int, name: str) -> str:
    return f"{place(call, name)}: it takes {wanted} arguments, and {len(call.args)} are given"


def _check_operator(call: Call, op: Op, types: Types, name: str) -> Type | None:
    if OPS.get(op.name) is not op:
        raise ProblemError(f"{place(call, name)}: no operator of this name is registered")
    given = [types.get(arg) for arg in call.args]
    if len(given) != op.num_inputs and not op.variadic and op.rel is not None:
        raise ProblemError(_arity(call, op.num_inputs, name))
    if not all_given(given) or not all(map(_is_plain, given)):
        return None
    try:
        return infer_op_call(call, op, given)
    except TypeInferenceError as error:
        raise ProblemError(f"the types in @{name} do not fit: {error}") from error


def _check_function(func: Function, types: Types, mod: IRModule, name: str) -> Type | None:
    body, kept, declared = types.get(func.body), func._checked_type, func.declared_ret_type
    if declared is not None and body is not None and not func.type_params and not _agree(body, declared):
        raise ProblemError(f"{title(func)} in @{name} returns {body}, and is declared to return {declared}")
    if isinstance(kept, FuncType) and body is not None and not _agree(body, kept.ret_type):
        raise ProblemError(f"{title(func)} in @{name} returns {body}, and its type says {kept.ret_type}")
    return None


def _check_item(item: TupleGetItem, types: Types, mod: IRModule, name: str) -> Type | None:
    ty = types.get(item.tuple_value)
    if not isinstance(ty, TupleType):
        if _is_plain(ty):
            raise ProblemError(f"{place(item, name)} takes field {item.index} of {ty}, which is no tuple")
        return None
    if not 0 <= item.index < len(ty.fields):
        raise ProblemError(f"{place(item, name)} takes field {item.index} of {ty}, which has {len(ty.fields)}")
    return ty.fields[item.index]


def _check_let(let: Let, types: Types, mod: IRModule, name: str) -> Type | None:
    declared, value = let.variable._checked_type, types.get(let.value)
    if declared is not None and value is not None and not _agree(value, declared):
        raise ProblemError(f"%{let.variable.name_hint} in @{name} has the type {declared}, and its value {value}")
    return types.get(let.body)


def _check_if(node: If, types: Types, mod: IRModule, name: str) -> Type | None:
    cond = types.get(node.cond)
    if cond is not None and _is_plain(cond) and cond != TensorType((), "bool"):
        raise ProblemError(f"{place(node, name)}: its condition is {cond}, and must be a scalar bool")
    left, right = types.get(node.true_branch), types.get(node.false_branch)
    if left is not None and right is not None and not _agree(left, right):
        raise ProblemError(f"{place(node, name)}: its branches differ, {left} and {right}")
    return None


def _tuple(node: Tuple, types: Types, mod: IRModule, name: str) -> Type | None:
    fields = [types.get(field) for field in node.fields]
    return TupleType(fields) if all_given(fields) else None


_RULES: dict[type, Callable[..., Type | None]] = {
    Call: _check_call,
    Constant: lambda node, types, mod, name: TensorType(node.data.shape, node.data.dtype),
    Function: _check_function,
    If: _check_if,
    Let: _check_let,
    Tuple: _tuple,
    TupleGetItem: _check_item,
}
