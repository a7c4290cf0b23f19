"""FoldConstant: what depends on constants alone is computed now, by the numpy kernels.

Folded are operator calls whose arguments are constants (or tuples of them), what is known of shapes (``shape_values``),
projections of constant tuples, and the choice of an ``if`` with a constant condition; operators whose shapes, axes or
bounds became known turn static (``dynamic_to_static``). Not folded: operators with the attribute ``TOpIsStateful``
(random numbers), dropout (what it does is SimplifyInference's to say), operators without a kernel, quantized operators
unless asked for (what is to be cut finds ``qnn.dequantize(weight)`` as it was written), other compilers' functions, and
results that the budget forbids (``folding_budget``), since they would only swell the artefact. A folded constant
is the value of one node and carries the span of that node. ``on_device`` of a constant counts as one.

Relay's pass (``FoldConstant``) is the milder: calls without arguments (``zeros``) stay, and what a kernel refuses, such
as an index outside its dimension, stays a call. The pipeline (``FoldHostConstant``) folds the first and raises for the
second. Source: ``relay.transform.FoldConstant``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from byoc.errors import UserError
from byoc.ir.expr import GlobalVar, RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op
from byoc.ir.passes.pass_info import REWRITES, Law
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.span import AnySpan
from byoc.ir.types import TypeCall, contains_type, tensor_types
from byoc.relay.analysis.contents import contents_of
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Function, If, Let, Tuple, TupleGetItem, Var, constant
from byoc.relay.interpreter import run_operator
from byoc.relay.narrowing import as_constant, as_function
from byoc.relay.op.core.known_shapes import FKNOWN_SHAPE, FPLAIN_FORM, PlainForm
from byoc.relay.op.core.type_relations import is_float
from byoc.relay.op.device_placement import is_on_device
from byoc.relay.transform.base.fusion_graph import uncompiled_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.transform.simplify.folding_budget import MAX_BYTES, FoldingBudget, bytes_of, note_origins, origins
from byoc.relay.transform.simplify.shape_values import ShapeValues
from byoc.relay.traverse import post_order, rewrite, same_types_rebuild
from byoc.runtime.core.ndarray import NDArray, numpy_dtype
from byoc.runtime.kernels.core.registry import KERNELS

if TYPE_CHECKING:
    from byoc.relay.interpreter import Value

QUANTIZED = "FTVMQnnCanonicalize"  # what marks an operator of relay.qnn
UNFOLDED = "FoldConstantKeeps"  # what marks an operator whose calls on constants stay calls


def is_constant(expr: RelayExpr) -> bool:
    """True for a constant, on a device too, or a tuple whose fields all are."""
    if type(expr) is Constant or type(expr) is Var:  # what nearly every argument is, beside calls
        return type(expr) is Constant
    stack = [expr]
    while stack:
        top = without_device(stack.pop())
        if isinstance(top, Tuple):
            stack.extend(top.fields)
        elif not isinstance(top, Constant):
            return False
    return True


def without_device(expr: RelayExpr) -> RelayExpr:
    """What is on a device, or *expr* itself."""
    while is_on_device(expr):
        expr = expr.args[0]
    return expr


def constant_value(expr: RelayExpr) -> Value:
    """The array of a constant; a list for a tuple."""
    expr = without_device(expr)
    return [constant_value(f) for f in expr.fields] if isinstance(expr, Tuple) else as_constant(expr).data.numpy()


def constant_of(value: Value, span: AnySpan | None) -> RelayExpr:
    """A constant, or a tuple of constants, that holds *value*."""
    if isinstance(value, list):
        return Tuple([constant_of(v, span) for v in value], span)
    return Constant(NDArray(np.asarray(value, order="C")), span)


def can_fold(call: Call, fold_qnn: bool = False) -> bool:
    """True when *call* is of an operator that may be computed while compiling, on constants alone."""
    op = call.op
    if not isinstance(op, Op):
        return False
    for arg in call.args:  # first, since most calls are of what is known when they run alone
        if not is_constant(arg):
            return False
    return (
        not op.get_attr("TOpIsStateful")
        and not op.get_attr(UNFOLDED)
        and (fold_qnn or not op.has_attr(QUANTIZED))
        and op.kernel in KERNELS  # last, since it imports kernels until it is found
    )


def fold_call(call: Call, budget: FoldingBudget | None = None) -> RelayExpr:
    """The typed *call*, which :func:`can_fold` allows, as a constant; itself where *budget* forbids it, and where its
    value is a sequence or an optional, which no constant holds.

    Raises KernelError where the kernel refuses its arguments.
    """
    if contains_type(call.checked_type, TypeCall):
        return call
    sources = origins(call.args)
    if not (budget or FoldingBudget()).allows([call], sources):
        return call
    folded = _view(call) or constant_of(run_operator(call, [constant_value(a) for a in call.args]), call.span)
    note_origins([folded], sources)
    return folded


_by_views: ContextVar[bool] = ContextVar("_by_views", default=False)


@contextmanager
def transposed_by_views() -> Iterator[None]:
    """Inside, a transposed constant is a view and no copy: for passes whose result is looked at, not compiled."""
    token = _by_views.set(True)
    try:
        yield
    finally:
        _by_views.reset(token)


def _view(call: Call) -> Constant | None:
    """What a *call* on constants gives where it is a transpose and views are wished for; else None."""
    if not _by_views.get() or not calls(call, "transpose"):
        return None
    axes = call.attrs["axes"]
    value = as_constant(without_device(call.args[0])).data.numpy()
    return Constant(NDArray(np.transpose(value, [int(a) for a in axes] if axes else None)), call.span)


def shape_constant(call: Call) -> Constant | None:
    """The known shape, or number of elements, that a typed call asks for, in its dtype (floats too); else None."""
    function = _OF_SHAPES.get(call.op.name) if isinstance(call.op, Op) else None
    return None if function is None else _of_shape(call, function)


_OF_SHAPES: dict[str, Callable[[tuple[int, ...]], object]] = {"shape_of": np.asarray, "ndarray_size": math.prod}


def _of_shape(call: Call, function: Callable[[tuple[int, ...]], object]) -> Constant | None:
    source = tensor_types(call.args[0].checked_type)[0]
    dtype = tensor_types(call.checked_type)[0].dtype
    if not source.is_static or not is_float(dtype):
        return None
    return constant(np.asarray(function(source.concrete_shape), numpy_dtype(dtype)), span=call.span)


class _Folder:
    """Rewrites a typed expression bottom up; types of new nodes are inferred as they are made."""

    def __init__(
        self, mod: IRModule | None, fold_qnn: bool = False, budget: FoldingBudget | None = None, mild: bool = False
    ):
        self.mod, self.fold_qnn, self.mild = mod, fold_qnn, mild
        self.done: dict[RelayExpr, RelayExpr] = {}
        self.bound: dict[RelayExpr, list[Var]] = {}
        self.shapes = ShapeValues()
        self.budget = budget

    def run(self, root: RelayExpr) -> RelayExpr:
        """*root* with all that is constant folded."""
        if self.budget is None:
            self.budget = FoldingBudget(lambda: bytes_of(origins(post_order(root, uncompiled_children))))
        if not isinstance(root, Function) or Let in contents_of(root).nodes:
            for node in post_order(root, uncompiled_children):
                if isinstance(node, Let):
                    self.bound.setdefault(node.value, []).append(node.variable)
        return rewrite(root, self._folded, uncompiled_children, self.done, same_types_rebuild)

    def _folded(self, before: RelayExpr, after: RelayExpr) -> RelayExpr:
        rule = _RULES.get(type(after))
        new = after if rule is None else rule(self, after)
        if isinstance(before, Let) and self.done[before.variable] is not before.variable:
            new = self.done[before.body]
        for variable in self.bound.get(before, ()):
            if isinstance(without_device(new), Constant):
                self.done[variable] = new
        return new

    def _typed(self, new: RelayExpr) -> RelayExpr:
        infer_expr(new, self.mod)
        return new

    def fold_call(self, call: Call) -> RelayExpr:
        """A call as a constant where it can be."""
        if call._checked_type is None:
            self._typed(call)
        folded = self._computed(call)
        if folded is not call:
            return folded
        known = self.shapes.learn(call) if (shape := shape_constant(call)) is None else shape
        if known is not call:
            return self._typed(known)
        op = call.op
        if not isinstance(op, Op):
            return call
        plain: PlainForm | None = op.get_attr(FPLAIN_FORM)
        if plain is not None:
            return self._plain(call, plain)
        if op.traits.static_form is None and op.get_attr(FKNOWN_SHAPE) is None:
            return call
        from byoc.relay.transform.simplify.dynamic_to_static import make_static  # which few models need

        static = make_static(call, self.shapes)
        return call if static is call else self._computed(self._typed(static))

    def _plain(self, call: Call, form: PlainForm) -> RelayExpr:
        """*call* in its plain form, of whose parts is remembered what they hold, or as it is."""
        found = form(call, lambda index: self.shapes.elements(call.args[index]))
        if found is None:
            return call
        self._typed(found)
        for part in post_order(found):
            if isinstance(part, Call) and self.shapes.get(part) is None:
                self.shapes.learn(part)
        return found

    def _computed(self, call: RelayExpr) -> RelayExpr:
        """What the kernel of a typed call on constants gives; *call* itself where none is asked, or it refuses."""
        if not (isinstance(call, Call) and can_fold(call, self.fold_qnn)) or (self.mild and not call.args):
            return call
        try:
            return self._typed(fold_call(call, self.budget))
        except (UserError, IndexError):
            if self.mild:
                return call
            raise

    def fold_if(self, node: If) -> RelayExpr:
        """The branch that a constant condition takes."""
        cond = without_device(node.cond)
        if not isinstance(cond, Constant):
            return node
        return node.true_branch if bool(cond.data.numpy()) else node.false_branch

    def fold_item(self, item: TupleGetItem) -> RelayExpr:
        """The field of a constant tuple."""
        value = without_device(item.tuple_value)
        return value.fields[item.index] if isinstance(value, Tuple) and is_constant(value) else item


_RULES: dict[type, Callable[..., RelayExpr]] = {
    Call: _Folder.fold_call,
    If: _Folder.fold_if,
    TupleGetItem: _Folder.fold_item,
}


def fold_constants(
    expr: RelayExpr,
    mod: IRModule | None = None,
    fold_qnn: bool = False,
    budget: FoldingBudget | None = None,
    mild: bool = False,
) -> RelayExpr:
    """*expr* with everything that depends on constants alone computed, quantized operators with *fold_qnn* only.

    *budget* is one of more than this expression; by default it has one of its own. *mild* folds what Relay's pass does.

    Raises TypeInferenceError for an ill-typed expression, KernelError where a kernel refuses its arguments, unless
    *mild*.
    """
    infer_expr(expr, mod)
    return _Folder(mod, fold_qnn, budget, mild).run(expr)


def FoldConstantExpr(expr: RelayExpr, mod: IRModule | None = None, fold_qnn: bool = False) -> RelayExpr:
    """*expr* with constants folded, quantized operators with *fold_qnn* only. Source: ``relay.transform``."""
    return fold_constants(expr, mod, fold_qnn, mild=True)


class _Settled(NamedTuple):
    """A fact of a function: there is nothing to fold, as things stood when that was found."""

    fold_qnn: bool
    mild: bool
    max_bytes: object
    kernels: int


def _pass(fold_qnn: bool, mild: bool) -> FunctionPass:
    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        settled = _Settled(fold_qnn, mild, ctx.config.get(MAX_BYTES), KERNELS.loaded)
        if settled in func.facts or settled._replace(fold_qnn=True) in func.facts:
            return func
        folded = as_function(fold_constants(func, mod, fold_qnn, mild=mild))
        if folded is func and GlobalVar not in contents_of(func).callees:  # whose types are not the function's own
            func.facts[settled] = True
        return folded

    return FunctionPass(
        fold, PassInfo("FoldConstant", 2, ends=REWRITES, law=Law("what is computed from constants is a constant"))
    )


def FoldConstant(fold_qnn: bool = False) -> FunctionPass:
    """The pass that folds constants, calls of quantized operators with *fold_qnn* only; it asks for no types before.

    Ensures: no operator call on constants alone is left but those without arguments, those that the budget or the
    operator forbids, and those that a kernel refuses.
    """
    return _pass(fold_qnn, mild=True)


def FoldHostConstant(fold_qnn: bool = False) -> FunctionPass:
    """FoldConstant of the pipeline, of the same name: calls without arguments are folded, refusals are errors.

    Ensures: no operator call on constants alone is left but those that the budget or the operator forbids.
    """
    return _pass(fold_qnn, mild=False)


def DynamicToStatic() -> FunctionPass:
    """The pass that turns dynamic operators with known shapes, axes or bounds into static ones, constants folded."""

    def fold(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return as_function(fold_constants(func, mod))

    return FunctionPass(
        fold,
        PassInfo(
            "DynamicToStatic",
            2,
            ("InferType",),
            ends=REWRITES,
            law=Law("an operand that is a constant may be an attribute"),
        ),
    )
