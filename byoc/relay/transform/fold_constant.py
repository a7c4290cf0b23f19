"""FoldConstant: what depends on constants alone is computed now, by the numpy kernels.

Folded are operator calls whose arguments are constants (or tuples of them), what is known of shapes (``shape_values``),
projections of constant tuples, and the choice of an ``if`` with a constant condition; operators whose shapes, axes or
bounds became known turn static (``dynamic_to_static``). Not folded: operators with the attribute ``TOpIsStateful``
(random numbers), dropout (what it does is SimplifyInference's to say), operators without a kernel, quantized operators
unless asked for (what is to be cut finds ``qnn.dequantize(weight)`` as it was written), other compilers' functions, and
results that the budget forbids (``folding_budget``), since they would only swell the artefact. A folded constant
is the value of one node and carries the span of that node. Source: ``relay.transform.FoldConstant``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.span import AnySpan
from byoc.ir.transform import PassContext, PassInfo
from byoc.ir.types import tensor_types
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var, constant
from byoc.relay.interpreter import Value, run_operator
from byoc.relay.op.type_relations import is_float
from byoc.relay.transform.dynamic_to_static import make_static
from byoc.relay.transform.folding_budget import FoldingBudget, bytes_of, note_origins, origins
from byoc.relay.transform.fusion_graph import uncompiled_children
from byoc.relay.transform.infer_type import FunctionPass
from byoc.relay.transform.shape_values import ShapeValues
from byoc.relay.traverse import post_order, rebuild
from byoc.runtime.kernels.registry import KERNELS
from byoc.runtime.ndarray import NDArray, numpy_dtype

QUANTIZED = "FTVMQnnCanonicalize"  # what marks an operator of relay.qnn
UNFOLDED = "FoldConstantKeeps"  # what marks an operator whose calls on constants stay calls


def is_constant(expr: RelayExpr) -> bool:
    """True for a constant, or a tuple whose fields all are."""
    stack = [expr]
    while stack:
        top = stack.pop()
        if isinstance(top, Tuple):
            stack.extend(top.fields)
        elif not isinstance(top, Constant):
            return False
    return True


def constant_value(expr: RelayExpr) -> Value:
    """The array of a constant; a list for a tuple."""
    return [constant_value(f) for f in expr.fields] if isinstance(expr, Tuple) else expr.data.numpy()  # type: ignore


def constant_of(value: Value, span: AnySpan | None) -> RelayExpr:
    """A constant, or a tuple of constants, that holds *value*."""
    if isinstance(value, list):
        return Tuple([constant_of(v, span) for v in value], span)
    return Constant(NDArray(np.asarray(value, order="C")), span)


def can_fold(call: Call, fold_qnn: bool = False) -> bool:
    """True when *call* is of an operator that may be computed while compiling, on constants alone."""
    op = call.op
    return (
        isinstance(op, Op)
        and not op.get_attr("TOpIsStateful")
        and not op.get_attr(UNFOLDED)
        and (fold_qnn or not op.has_attr(QUANTIZED))
        and op.kernel in KERNELS
        and all(is_constant(a) for a in call.args)
    )


def fold_call(call: Call, budget: FoldingBudget | None = None) -> RelayExpr:
    """The typed *call*, which :func:`can_fold` allows, as a constant; itself where *budget* forbids it.

    Raises KernelError where the kernel refuses its arguments.
    """
    sources = origins(call.args)
    if not (budget or FoldingBudget()).allows([call], sources):
        return call
    folded = constant_of(run_operator(call, [constant_value(a) for a in call.args]), call.span)
    note_origins([folded], sources)
    return folded


def shape_constant(call: Call) -> Constant | None:
    """The known shape that a typed call of ``shape_of`` asks for, in its dtype (floats too); else None."""
    if not calls(call, "shape_of"):
        return None
    source = tensor_types(call.args[0].checked_type)[0]
    dtype = tensor_types(call.checked_type)[0].dtype
    if not source.is_static or not is_float(dtype):
        return None
    return constant(np.asarray(source.concrete_shape, numpy_dtype(dtype)), span=call.span)


class _Folder:
    """Rewrites a typed expression bottom up; types of new nodes are inferred as they are made."""

    def __init__(self, mod: IRModule | None, fold_qnn: bool = False, budget: FoldingBudget | None = None):
        self.mod, self.fold_qnn = mod, fold_qnn
        self.memo: dict[RelayExpr, RelayExpr] = {}
        self.bound: dict[RelayExpr, list[Var]] = {}
        self.shapes = ShapeValues()
        self.budget = budget

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* with all that is constant folded."""
        order = list(post_order(root, uncompiled_children))
        if self.budget is None:
            self.budget = FoldingBudget(bytes_of(origins(order)))
        for node in order:
            if isinstance(node, Let):
                self.bound.setdefault(node.value, []).append(node.variable)
        for node in order:
            new = self.memo[node] = self._visit(node)
            for variable in self.bound.get(node, ()):
                if isinstance(new, Constant):
                    self.memo[variable] = new
        return self.memo[root]

    def _visit(self, node: RelayExpr) -> RelayExpr:
        if isinstance(node, Let) and self.memo[node.variable] is not node.variable:
            return self.memo[node.body]
        inner = uncompiled_children(node)
        new = rebuild(node, [self.memo[c] for c in inner]) if inner else node
        rule = _RULES.get(type(new))
        return new if rule is None else rule(self, new)

    def _typed(self, new: RelayExpr) -> RelayExpr:
        infer_expr(new, self.mod)
        return new

    def fold_call(self, call: Call) -> RelayExpr:
        """A call as a constant where it can be."""
        self._typed(call)
        known = self.shapes.learn(call) if (shape := shape_constant(call)) is None else shape
        if known is not call:
            return self._typed(known)
        call = make_static(call, self.shapes)
        self._typed(call)
        return self._typed(fold_call(call, self.budget)) if can_fold(call, self.fold_qnn) else call

    def fold_if(self, node: If) -> RelayExpr:
        """The branch that a constant condition takes."""
        if not isinstance(node.cond, Constant):
            return node
        return node.true_branch if bool(node.cond.data.numpy()) else node.false_branch

    def fold_item(self, item: TupleGetItem) -> RelayExpr:
        """The field of a constant tuple."""
        return item.tuple_value.fields[item.index] if is_constant(item.tuple_value) else item


_RULES: dict[type, Callable[..., RelayExpr]] = {
    Call: _Folder.fold_call,
    If: _Folder.fold_if,
    TupleGetItem: _Folder.fold_item,
}


def fold_constants(
    expr: RelayExpr, mod: IRModule | None = None, fold_qnn: bool = False, budget: FoldingBudget | None = None
) -> RelayExpr:
    """*expr* with everything that depends on constants alone computed, quantized operators with *fold_qnn* only.

    *budget* is one of more than this expression; by default it has one of its own.

    Raises TypeInferenceError for an ill-typed expression, KernelError where a kernel refuses its arguments.
    """
    infer_expr(expr, mod)
    return _Folder(mod, fold_qnn, budget).run(expr)


def FoldConstantExpr(  # noqa: N802 - Relay's name
    expr: RelayExpr, mod: IRModule | None = None, fold_qnn: bool = False
) -> RelayExpr:
    """*expr* with constants folded, quantized operators with *fold_qnn* only. Source: ``relay.transform``."""
    return fold_constants(expr, mod, fold_qnn)


def FoldConstant(fold_qnn: bool = False) -> FunctionPass:  # noqa: N802 - Relay's name
    """The pass that folds constants, calls of quantized operators with *fold_qnn* only.

    Ensures: no operator call on constants alone is left but those that the budget or the operator forbids.
    """

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_constants(func, mod, fold_qnn)  # type: ignore[return-value]

    return FunctionPass(fold, PassInfo("FoldConstant", 2, ("InferType",)))


def DynamicToStatic() -> FunctionPass:  # noqa: N802 - Relay's name
    """The pass that turns dynamic operators with known shapes, axes or bounds into static ones, constants folded."""

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return fold_constants(func, mod)  # type: ignore[return-value]

    return FunctionPass(fold, PassInfo("DynamicToStatic", 2, ("InferType",)))
