"""EliminateCommonSubexpr: what is computed twice from the same values is computed once.

Two operator calls are the same when operator, attributes and arguments are; projections and tuples by their parts;
constants of at most :data:`MAX_COMPARED_BYTES` by dtype, shape and bytes. Operators with ``TOpIsStateful`` (random
numbers) are never the same. A node that stands for several carries all their spans. Works by value numbers, in one
walk; functions are worlds of their own. Source: ``relay.transform.EliminateCommonSubexpr``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import AnySpan, merge_spans
from byoc.relay.analysis.contents import contents_of
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import dataflow_children, post_order, rebuild, rewrite

MAX_COMPARED_BYTES = 4096
Numbers = dict[RelayExpr, int]


def _call_key(call: Call, numbers: Numbers) -> Hashable | None:
    if not isinstance(call.op, Op) or call.op.get_attr("TOpIsStateful"):
        return None
    # repr, since 1, 1.0 and True are equal to Python and not to an operator
    return ("call", call.op.name, repr(call.attrs), *(numbers[a] for a in call.args))


def _constant_key(constant: Constant, numbers: Numbers) -> Hashable | None:
    data = constant.data
    if data.dtype == "string" or data.nbytes > MAX_COMPARED_BYTES:
        return None
    return ("constant", data.dtype, data.shape, data.numpy().tobytes())


_KEYS: dict[type, Callable[..., Hashable | None]] = {
    Call: _call_key,
    Constant: _constant_key,
    Tuple: lambda e, numbers: ("tuple", *(numbers[f] for f in e.fields)),
    TupleGetItem: lambda e, numbers: ("item", numbers[e.tuple_value], e.index),
}


def _number(order: Sequence[RelayExpr], fskip: Callable[[RelayExpr], bool] | None) -> list[list[RelayExpr]]:
    """The nodes of one function in classes of equal value, each in order of appearance."""
    numbers: Numbers = {}
    known: dict[Hashable, int] = {}
    classes: list[list[RelayExpr]] = []
    for node in order:
        rule = _KEYS.get(type(node))
        key = rule(node, numbers) if rule is not None and not (fskip is not None and fskip(node)) else None
        number = len(classes) if key is None else known.setdefault(key, len(classes))
        if number == len(classes):
            classes.append([])
        classes[number].append(node)
        numbers[node] = number
    return classes


def _with_span(node: RelayExpr, span: AnySpan | None) -> RelayExpr:
    """A copy of *node* that carries *span*."""
    if isinstance(node, Call):
        return Call(node.op, node.args, node.attrs, node.type_args, span)
    if isinstance(node, Constant):
        return Constant(node.data, span)
    if isinstance(node, Tuple):
        return Tuple(node.fields, span)
    assert isinstance(node, TupleGetItem)
    return TupleGetItem(node.tuple_value, node.index, span)


def _merge(
    root: RelayExpr, functions: dict[RelayExpr, RelayExpr], fskip: Callable[[RelayExpr], bool] | None
) -> RelayExpr:
    """*root* (the body of one function) with one node per class; *functions* are the inner ones, done."""
    order = list(post_order(root, dataflow_children))
    class_of = {node: members for members in _number(order, fskip) for node in members}
    done: dict[RelayExpr, RelayExpr] = {}

    def merged(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        if before in functions:
            return functions[before]
        members = class_of[before]
        if before is not members[0]:
            return done[members[0]]
        span = merge_spans(m.span for m in members) if len(members) > 1 else before.span
        return after if span == before.span else _with_span(after, span)

    return rewrite(root, merged, dataflow_children, done)


def _functions_inside(node: RelayExpr) -> Sequence[RelayExpr]:
    """The functions that stand in the body of a function, without those inside of them; a unit is not entered."""
    if not isinstance(node, Function) or not fusion_children(node) or Function not in contents_of(node).nodes:
        return ()
    return [inner for inner in post_order(node.body, dataflow_children) if isinstance(inner, Function)]


def merge_common(func: Function, fskip: Callable[[RelayExpr], bool] | None = None) -> Function:
    """*func* without repetitions, its inner functions likewise; nodes that *fskip* accepts stay as they are."""
    done: dict[RelayExpr, RelayExpr] = {}

    def merged(before: RelayExpr, after: RelayExpr) -> RelayExpr:
        function = as_function(before)
        if not fusion_children(function):
            return function
        return rebuild(function, [*function.params, _merge(function.body, done, fskip)])

    return as_function(rewrite(func, merged, _functions_inside, done))


def EliminateCommonSubexpr(fskip: Callable[[RelayExpr], bool] | None = None) -> FunctionPass:
    """The pass that computes equal expressions once, except those for which *fskip* is true."""

    def merge(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return merge_common(func, fskip)

    return FunctionPass(
        merge,
        PassInfo(
            "EliminateCommonSubexpr",
            3,
            ("InferType",),
            ends=REWRITES,
            law=Law("equal operators over equal arguments have equal results"),
        ),
    )
