"""What kind of operation an expression or a sub-graph is, for fusion, and the label that it is reported under.

Source: Collage's ``SubExprKindAndLabel``, ``CanInline`` and ``MustBeLowered``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from byoc.ir.attrs import as_int
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.op import Op, OpPattern
from byoc.ir.types import TensorType, TupleType, Type
from byoc.relay.expr import Call, Constant, Function, If, Let, RefCreate, RefRead, RefWrite, Tuple, TupleGetItem, Var

KindAndLabel = tuple[OpPattern, str]

NON_COMPUTATIONAL = "TNonComputational"
DATA_DEPENDENT = "TShapeDataDependent"
_SIMPLE_DTYPES = frozenset(["bool", "int16", "int32", "int64", "float16", "float32", "float64"])


def _call_kind(call: Call) -> KindAndLabel:
    if isinstance(call.op, Op):
        pattern = call.op.get_attr("TOpPattern")
        if pattern is None or (_is_dynamic(call.checked_type) and _is_data_dependent(call.op)):
            return OpPattern.OPAQUE, call.op.name
        return OpPattern(int(pattern)), call.op.name
    if isinstance(call.op, Function):
        pattern = call.op.attrs.get("TOpPattern")
        if pattern is not None:
            return OpPattern(as_int(pattern)), "call_prim"
        return OpPattern.OPAQUE, "call_fun"
    return OpPattern.OPAQUE, "call_any"


def _is_data_dependent(op: Op) -> bool:
    flags = op.get_attr(DATA_DEPENDENT) or False
    return any(flags) if isinstance(flags, (list, tuple)) else bool(flags)


def _is_dynamic(ty: Type) -> bool:
    fields = ty.fields if isinstance(ty, TupleType) else (ty,)
    return any(isinstance(t, TensorType) and not t.is_static for t in fields)


def _aggregate_kind(ty: Type, label: str) -> KindAndLabel:
    """A tuple of tensors is injective; one that holds anything else is opaque."""
    flat = isinstance(ty, TupleType) and all(isinstance(field, TensorType) for field in ty.fields)
    return (OpPattern.INJECTIVE if flat else OpPattern.OPAQUE), label


# node class -> kind and label
_KINDS: dict[type, Callable[..., KindAndLabel]] = {
    Call: _call_kind,
    Constant: lambda e: (OpPattern.ELEMWISE, "const"),
    Tuple: lambda e: _aggregate_kind(e.checked_type, "tuple"),
    TupleGetItem: lambda e: _aggregate_kind(e.tuple_value.checked_type, "proj"),
    Var: lambda e: (OpPattern.OPAQUE, f"%{e.name_hint}"),
    GlobalVar: lambda e: (OpPattern.OPAQUE, f"@{e.name_hint}"),
    Op: lambda e: (OpPattern.OPAQUE, f"`{e.name}"),
    Function: lambda e: (OpPattern.OPAQUE, "fun"),
    Let: lambda e: (OpPattern.OPAQUE, "let"),
    If: lambda e: (OpPattern.OPAQUE, "if"),
    RefCreate: lambda e: (OpPattern.OPAQUE, "ref"),
    RefRead: lambda e: (OpPattern.OPAQUE, "ref_read"),
    RefWrite: lambda e: (OpPattern.OPAQUE, "ref_write"),
}


def sub_expr_kind_and_label(expr: RelayExpr) -> KindAndLabel:
    """How *expr* may be fused, not looking below it, and what to call it; opaque for classes that never are."""
    rule = _KINDS.get(type(expr))
    return rule(expr) if rule is not None else (OpPattern.OPAQUE, type(expr).__name__.lower())


def sub_graph_kind_and_label(exprs: Iterable[RelayExpr]) -> KindAndLabel:
    """The greatest kind among *exprs*, and their labels joined by ``+``."""
    kind, label = OpPattern.ELEMWISE, ""
    for expr in exprs:
        own_kind, own_label = sub_expr_kind_and_label(expr)
        kind, label = max(kind, own_kind), union_labels(label, own_label)
    return kind, label


def union_labels(left: str, right: str) -> str:
    """Both labels joined by ``+``; an empty one adds nothing.

    >>> union_labels("nn.relu", "add")
    'nn.relu+add'
    """
    return "+".join(label for label in (left, right) if label)


def nest_labels(left: str, right: str) -> str:
    """The label of a rule within another: joined by a dot."""
    return ".".join(label for label in (left, right) if label)


def can_inline(expr: RelayExpr) -> bool:
    """True for what may stand inside a sub-graph that does not own it: operators, functions, scalar constants."""
    if isinstance(expr, Constant):
        return expr.data.shape == () and expr.data.dtype in _SIMPLE_DTYPES
    return isinstance(expr, (Op, Function))


def is_special_op(op: Op) -> bool:
    """True for operators that compute nothing, and for asking after a shape: they are never lowered."""
    return bool(op.get_attr(NON_COMPUTATIONAL)) or op.traits.gives_shape


def must_be_lowered(expr: RelayExpr) -> bool:
    """True for a call that some target must generate code for."""
    if not isinstance(expr, Call):
        return False
    if isinstance(expr.op, Function):
        return bool(expr.op.attrs.get("Primitive"))
    return isinstance(expr.op, Op) and not is_special_op(expr.op)
