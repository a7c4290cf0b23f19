"""SimplifyExpr: calls that change nothing are dropped, neighbours that can be one become one, layer norms too.

The rules stand in ``simplify_arithmetic``, ``simplify_shapes`` and ``simplify_casts``; this is how they are applied:
bottom up, in their order, until none applies. Source: ``relay.transform.SimplifyExpr``, whose rules on dataflow
patterns these are, and ``SimplifyExprPostAlterOp``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.relay.analysis.module_types import typed_expr
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, Tuple, TupleGetItem, constant
from byoc.relay.narrowing import as_function, operator_of, tensor_type
from byoc.relay.transform.base.call_rules import ByOperator
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.simplify.arithmetic import ARITHMETIC, RELAY_ARITHMETIC, RELAY_NEUTRAL, switch_add_multiply
from byoc.relay.transform.simplify.casts import CASTS, RECASTS, RELAY_CASTS
from byoc.relay.transform.simplify.rules import Rule, is_all, law, merged, spans_of
from byoc.relay.transform.simplify.shapes import SHAPES, says_new_shape
from byoc.relay.traverse import rebuild, rewrite

# Rules that gather a layer norm: ``d * rsqrt(mean(d * d) + e)``, or ``d / sqrt(...)``, with ``d = x - mean(x)`` over
# the last axis; a constant vector that then multiplies is its scale, one that is added its shift. Source: the function
# of LayerNormalization in the ONNX standard.


def _mean_of(expr: RelayExpr) -> RelayExpr | None:
    """What *expr* is the mean of over its last axis, which stays as 1; None for anything else."""
    from byoc.relay.op.numeric.reduce import reduced_axes

    if not calls(expr, "mean"):
        return None
    data, attrs = expr.args[0], expr.attrs
    ty = tensor_type(data)
    last = attrs["keepdims"] and not attrs["exclude"] and list(reduced_axes(attrs, ty.ndim)) == [ty.ndim - 1]
    return data if last and ty.dtype == "float32" else None


def _number(expr: RelayExpr) -> float | None:
    """The value of a constant of one element."""
    if not isinstance(expr, Constant) or expr.data.numpy().size != 1:
        return None
    return float(expr.data.numpy().reshape(()))


def _spread_of(expr: RelayExpr) -> tuple[RelayExpr, float] | None:
    """``mean(d * d) + e`` as (d, e)."""
    if not calls(expr, "add"):
        return None
    square, epsilon = _mean_of(expr.args[0]), _number(expr.args[1])
    if square is None or epsilon is None:
        return None
    if calls(square, "multiply") and square.args[0] is square.args[1]:
        return square.args[0], epsilon
    if calls(square, "power") and is_all(square.args[1], 2):
        return square.args[0], epsilon
    return None


def _layer_norm(call: Call, centred: RelayExpr, spread: RelayExpr, *sources: RelayExpr) -> RelayExpr | None:
    found = _spread_of(spread)
    if found is None or found[0] is not centred or not calls(centred, "subtract"):
        return None
    data, mean = centred.args
    if _mean_of(mean) is not data:
        return None
    size = tensor_type(data).shape[-1]
    if not isinstance(size, int):
        return None
    vectors = [constant(np.full(int(size), value, "float32")) for value in (1, 0)]
    attrs = {"axis": -1, "epsilon": found[1], "center": False, "scale": False}
    return merged("nn.layer_norm", [data, *vectors], attrs, mean, centred, spread, *sources, call)


@law("(x - mean) * rsqrt(variance + e) is a layer norm", Numbers.ROUNDING)
def product_norm(call: Call) -> RelayExpr | None:
    """``d * rsqrt(mean(d * d) + e)`` is a layer norm."""
    for centred, root in (call.args, call.args[::-1]):
        if calls(root, "rsqrt"):
            found = _layer_norm(call, centred, root.args[0], root)
            if found is not None:
                return found
    return None


@law("(x - mean) / sqrt(variance + e) is a layer norm", Numbers.ROUNDING)
def quotient_norm(call: Call) -> RelayExpr | None:
    """``d / sqrt(mean(d * d) + e)`` is a layer norm."""
    centred, root = call.args
    return _layer_norm(call, centred, root.args[0], root) if calls(root, "sqrt") else None


def _along_last(norm: Call, vector: Constant) -> bool:
    """True for a constant with a number for each place along the last axis of a norm over this."""
    ty, values = tensor_type(norm), vector.data.numpy()
    last = int(norm.attrs["axis"]) % ty.ndim == ty.ndim - 1
    return last and values.ndim > 0 and values.size == values.shape[-1] == ty.shape[-1]


def _takes(flag: str, place: int) -> Rule:
    """The rule by which a norm takes up a vector as its scale or its shift."""

    @law(f"a norm takes up a vector as its {flag}", Numbers.ROUNDING)
    def rule(call: Call) -> RelayExpr | None:
        for norm, vector in (call.args, call.args[::-1]):
            if not calls(norm, "nn.layer_norm") or not isinstance(vector, Constant):
                continue
            if not _along_last(norm, vector) or norm.attrs["center"] or norm.attrs[flag]:
                continue
            args = list(norm.args)
            args[place] = constant(vector.data.numpy().reshape(-1), span=vector.span)
            attrs = replace(norm.attrs, **{flag: True})
            return Call(norm.op, args, attrs, span=spans_of(norm, call))
        return None

    return rule


NORMS: dict[str, tuple[Rule, ...]] = {
    "multiply": (product_norm, _takes("scale", 1)),
    "divide": (quotient_norm,),
    "add": (_takes("center", 2),),
}


Rules = Mapping[str, Sequence[Rule]]

# Relay's pass, which keeps what a vendor's patterns look for: tensors of zeros, clips behind quantized operators
RULES: Rules = ByOperator(SHAPES, RELAY_CASTS, RELAY_ARITHMETIC)
# what is worth doing whatever is looked for
THOROUGH_RULES: Rules = ByOperator(SHAPES, CASTS, ARITHMETIC)


def _of_host(op: Op) -> Sequence[Rule] | None:
    rules = THOROUGH_RULES.get(op.name)
    return rules and (*(r for r in rules if r is not switch_add_multiply), *NORMS.get(op.name, ()))


def _after_alter_op(op: Op) -> Sequence[Rule] | None:
    return RULES.get(op.name) if op.name in RELAY_NEUTRAL or op.name in RECASTS or says_new_shape(op) else None


# norms are gathered, and sums stay sums: a scale goes into weights through a bias (FoldConstantScales), and a sum that
# is read twice is made once
HOST_RULES: Rules = ByOperator(_of_host)

# what AlterOpLayout leaves behind: neutral elements, reshapes and casts
POST_ALTER_RULES: Rules = ByOperator(_after_alter_op)


def _applied(call: Call, rules: Rules, mod: IRModule | None) -> RelayExpr | None:
    """What the first rule that applies makes of *call*, of the same type; None where none does."""
    for rule in rules[operator_of(call).name]:
        new = rule(call)
        if new is not None and infer_expr(new, mod) == call.checked_type:
            return new
    return None


def _simplify_call(call: Call, rules: Rules, mod: IRModule | None) -> RelayExpr:
    while isinstance(call.op, Op) and call.op.name in rules:
        infer_expr(call, mod)
        known = {call, *call.args, *(a for arg in call.args for a in fusion_children(arg))}
        new = _applied(call, rules, mod)
        if new is None or new in known or not isinstance(new, Call):
            return call if new is None else new
        # calls inside the new one are as new as it is, and may be simplified themselves
        inner = [_simplify_new(arg, known, rules, mod) for arg in new.args]
        call = rebuild(new, inner)
    return call


def _simplify_new(arg: RelayExpr, known: set[RelayExpr], rules: Rules, mod: IRModule | None) -> RelayExpr:
    if arg in known or not isinstance(arg, Call):
        return arg
    return _simplify_call(arg, rules, mod)


def simplify(root: RelayExpr, mod: IRModule | None = None, rules: Rules = RULES) -> RelayExpr:
    """*root* with *rules* applied bottom up, until none applies."""

    def simplified(before: RelayExpr, new: RelayExpr) -> RelayExpr:
        if isinstance(new, TupleGetItem) and isinstance(new.tuple_value, Tuple):
            new = new.tuple_value.fields[new.index]
        return _simplify_call(new, rules, mod) if isinstance(new, Call) else new

    return rewrite(typed_expr(root, mod), simplified, fusion_children)


LAW = Law("every rule of its tables replaces a call by one of the same value", Numbers.ROUNDING)


def _pass(name: str, rules: Rules) -> FunctionPass:
    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(simplify(func, mod, rules))

    return FunctionPass(run, PassInfo(name, 0, ("InferType",), ends=REWRITES, law=LAW))


def SimplifyExpr() -> FunctionPass:
    """The pass that drops calls without effect on their result and merges neighbours."""
    return _pass("SimplifyExpr", RULES)


def SimplifyControlExpr() -> FunctionPass:
    """SimplifyExpr of functions with control flow, of the same name: as in the pipeline, but norms are left."""
    return _pass("SimplifyExpr", THOROUGH_RULES)


def SimplifyExprPostAlterOp() -> FunctionPass:
    """The pass that cleans up what AlterOpLayout leaves: identities, reshapes and casts in a row."""
    return _pass("SimplifyExprPostAlterOp", POST_ALTER_RULES)


def SimplifyHostExpr() -> FunctionPass:
    """SimplifyExpr of the pipeline, of the same name: it gathers norms, and leaves sums before products."""
    return _pass("SimplifyExpr", HOST_RULES)
