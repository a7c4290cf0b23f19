"""SimplifyExpr: calls that change nothing are dropped, and neighbours that can be one become one.

A rule takes a typed operator call and returns what to put in its place, or None. Every rule keeps the type of the
result, so whatever reads it is not disturbed; rules that compare shapes ask that every dimension is a number or a named
size, since two unknown sizes need not be the same. A node made from several carries their spans. Source:
``relay.transform.SimplifyExpr``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, get_op
from byoc.ir.span import merge_spans
from byoc.ir.transform import PassContext, PassInfo
from byoc.ir.types import Any, TensorType
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, const
from byoc.relay.transform.fusion_graph import fusion_children
from byoc.relay.transform.infer_type import FunctionPass
from byoc.relay.transform.scale_rules import channel_values
from byoc.relay.traverse import post_order, rebuild

Rule = Callable[[Call], RelayExpr | None]


def keeps_type(call: Call) -> RelayExpr | None:
    """The argument, where the result has its type and every dimension of it is known by number or name."""
    data, result = call.args[0], call.checked_type
    known = isinstance(result, TensorType) and result.is_symbolic
    return data if known and data.checked_type == result else None


def _calls(expr: RelayExpr, *names: str) -> bool:
    return isinstance(expr, Call) and isinstance(expr.op, Op) and expr.op.name in names


def _merged(name: str, args: list[RelayExpr], attrs: dict[str, object], *sources: RelayExpr) -> Call:
    op = get_op(name)
    attributes = op.attrs_type(**attrs) if op.attrs_type is not None else None
    return Call(op, args, attributes, span=merge_spans(s.span for s in sources))


def reshape_to(call: Call) -> RelayExpr | None:
    """A reshape of a reshape is one; a reshape to the same shape is none."""
    same = keeps_type(call)
    if same is not None:
        return same
    inner, result = call.args[0], call.checked_type
    if not _calls(inner, *RESHAPES) or not isinstance(result, TensorType) or 0 in result.shape:
        return None
    unknown = sum(isinstance(d, Any) for d in result.shape)
    if unknown > 1 or not result.is_symbolic:
        return None
    shape = tuple(-1 if isinstance(d, Any) else d for d in result.shape)
    return _merged("reshape", [inner.args[0]], {"newshape": shape}, inner, call)  # type: ignore[attr-defined]


def _permutation(call: Call) -> tuple[int, ...]:
    ndim = call.args[0].checked_type.ndim  # type: ignore[attr-defined]
    axes = call.attrs["axes"]  # type: ignore[index]
    return tuple(a % ndim for a in axes) if axes else tuple(reversed(range(ndim)))  # type: ignore[union-attr]


def transpose(call: Call) -> RelayExpr | None:
    """A transpose of a transpose is one; the identity permutation is none."""
    axes, inner = _permutation(call), call.args[0]
    if axes == tuple(range(len(axes))):
        return inner
    if not _calls(inner, "transpose"):
        return None
    before = _permutation(inner)  # type: ignore[arg-type]
    composed = tuple(before[a] for a in axes)
    if composed == tuple(range(len(axes))):
        return inner.args[0]  # type: ignore[attr-defined]
    return _merged("transpose", [inner.args[0]], {"axes": composed}, inner, call)  # type: ignore[attr-defined]


def concatenate(call: Call) -> RelayExpr | None:
    """The concatenation of one tensor is that tensor."""
    fields = call.args[0].fields if isinstance(call.args[0], Tuple) else ()
    return fields[0] if len(fields) == 1 else None


def strided_slice(call: Call) -> RelayExpr | None:
    """A slice in steps of one that takes everything is none."""
    strides = call.attrs["strides"]  # type: ignore[index]
    return keeps_type(call) if all(s == 1 for s in strides or ()) else None  # type: ignore[union-attr]


def idempotent(call: Call) -> RelayExpr | None:
    """``f(f(x))`` is ``f(x)``."""
    return call.args[0] if _calls(call.args[0], call.op.name) else None  # type: ignore[attr-defined]


def _neutral(value: float, either: bool) -> Rule:
    """``x op value`` is x; with *either* also ``value op x``."""

    def rule(call: Call) -> RelayExpr | None:
        for data, other in (call.args, reversed(call.args)) if either else (call.args,):
            if isinstance(other, Constant) and data.checked_type == call.checked_type and _is_all(other, value):
                return data if call.checked_type.is_symbolic else None  # type: ignore[attr-defined]
        return None

    return rule


def _is_all(constant: Constant, value: float) -> bool:
    return constant.data.dtype != "string" and bool(np.all(constant.data.numpy() == value))


def _associative(combine: Callable[[np.ndarray, np.ndarray], np.ndarray], value: float) -> Rule:
    """``(x op c1) op c2`` is ``x op (c1 op c2)`` for floating-point constants; *value* is neutral."""
    drop = _neutral(value, either=True)

    def rule(call: Call) -> RelayExpr | None:
        dropped = drop(call)
        if dropped is not None:
            return dropped
        outer, inner = _with_constant(call), None
        if outer is not None and _calls(outer[0], call.op.name):  # type: ignore[attr-defined]
            inner = _with_constant(outer[0])  # type: ignore[arg-type]
        if inner is None or outer is None or not outer[1].data.dtype.startswith("float"):
            return None
        values = inner[1].data.numpy(), outer[1].data.numpy()
        both = const(combine(*values), span=merge_spans([inner[1].span, outer[1].span]))
        if both.data.nbytes > max(v.nbytes for v in values):
            return None
        return _merged(call.op.name, [inner[0], both], {}, outer[0], call)  # type: ignore[attr-defined]

    return rule


def _with_constant(call: Call) -> tuple[RelayExpr, Constant] | None:
    """A binary call as (what is not constant, the constant)."""
    left, right = call.args
    if isinstance(right, Constant) and not isinstance(left, Constant):
        return left, right
    return (right, left) if isinstance(left, Constant) and not isinstance(right, Constant) else None


def power(call: Call) -> RelayExpr | None:
    """A number to the power of 1, 2 or 3 is itself, its square, its cube by products.

    That is tens of times faster, and exact on integers, whose powers go through float64.
    """
    data, exponent = call.args
    result = call.checked_type
    if not isinstance(exponent, Constant) or not isinstance(result, TensorType) or data.checked_type != result:
        return None
    if not result.is_symbolic or not result.dtype.startswith(("float", "int", "uint")):
        return None
    if _is_all(exponent, 1):
        return data
    square = _merged("multiply", [data, data], {}, call)
    if _is_all(exponent, 2):
        return square
    return _merged("multiply", [square, data], {}, call) if _is_all(exponent, 3) else None


_add_constants = _associative(np.add, 0.0)


def _add(call: Call) -> RelayExpr | None:
    """``bias_add(x, b) + c`` is ``bias_add(x, b + c)`` for constants along one axis; and what every sum may become."""
    simpler = _add_constants(call)
    outer = _with_constant(call) if simpler is None else None
    if outer is None or not _calls(outer[0], "nn.bias_add") or outer[0].checked_type != call.checked_type:
        return simpler
    data, bias = outer[0].args  # type: ignore[attr-defined]
    result = call.checked_type
    if not isinstance(bias, Constant) or not isinstance(result, TensorType):
        return None
    attrs = outer[0].attrs  # type: ignore[attr-defined]
    more = channel_values(outer[1], int(attrs["axis"]) % result.ndim, result)
    if more is None:
        return None
    both = const((bias.data.numpy() + more).astype(bias.data.dtype), span=merge_spans([bias.span, outer[1].span]))
    return Call(outer[0].op, [data, both], attrs, span=merge_spans([outer[0].span, call.span]))  # type: ignore


# operators that only give the elements another shape
RESHAPES = ("reshape", "squeeze", "expand_dims", "nn.batch_flatten")

RULES: dict[str, Rule] = {
    **dict.fromkeys(RESHAPES, reshape_to),
    **dict.fromkeys(("cast", "broadcast_to", "tile", "nn.pad", "cast_like", "broadcast_to_like"), keeps_type),
    **dict.fromkeys(("nn.relu", "abs", "ceil", "floor", "round", "trunc", "sign"), idempotent),
    "transpose": transpose,
    "concatenate": concatenate,
    "strided_slice": strided_slice,
    "add": _add,
    "multiply": _associative(np.multiply, 1.0),
    "subtract": _neutral(0.0, either=False),
    "divide": _neutral(1.0, either=False),
    "power": power,
}


def _simplify_call(call: Call, mod: IRModule | None) -> RelayExpr:
    while isinstance(call.op, Op) and call.op.name in RULES:
        infer_expr(call, mod)
        new = RULES[call.op.name](call)
        if new is None:
            return call
        is_new = new.checked_type_ is None
        if infer_expr(new, mod) != call.checked_type:
            return call
        if not (is_new and isinstance(new, Call)):
            return new
        call = new
    return call


def simplify(root: RelayExpr, mod: IRModule | None = None) -> RelayExpr:
    """*root* with :data:`RULES` applied bottom up, until none applies."""
    infer_expr(root, mod)
    memo: dict[RelayExpr, RelayExpr] = {}
    for node in post_order(root, fusion_children):
        inner = fusion_children(node)
        new = rebuild(node, [memo[c] for c in inner]) if inner else node
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            new = new.tuple_value.fields[new.index]
        memo[node] = _simplify_call(new, mod) if isinstance(new, Call) else new
    return memo[root]


def SimplifyExpr() -> FunctionPass:  # noqa: N802 - Relay's name
    """The pass that drops calls without effect on their result and merges neighbours."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return simplify(func, mod)  # type: ignore[return-value]

    return FunctionPass(run, PassInfo("SimplifyExpr", 0, ("InferType",)))
