"""Constants are folded while importing, so that shapes, axes and bounds computed in the graph are known at once.

Only what depends on constants alone is folded, by the reference interpreter, and only within the import's budget
(``relay/transform/simplify/folding_budget.py``): a mask made from three numbers stays a call.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from byoc.ir.expr import RelayExpr
from byoc.ir.op import Op
from byoc.ir.span import AnySpan
from byoc.ir.traits import OpKind
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.expr import Call, Constant, Tuple, TupleGetItem
from byoc.relay.transform.simplify import fold_constant
from byoc.relay.transform.simplify.folding_budget import (
    FoldingBudget,
    calls_below,
    constants_below,
    note_origins,
    origins,
    type_bytes,
)
from byoc.relay.traverse import children, post_order
from byoc.runtime.core.ndarray import NDArray

LARGE = 1 << 24  # bytes of a constant that is not moved while importing
_MOVING = (OpKind.MOVE, OpKind.VIEW)


def fold_constants(
    outputs: Sequence[RelayExpr], inputs: Sequence[RelayExpr | None], span: AnySpan | None, budget: FoldingBudget
) -> list[RelayExpr]:
    """*outputs* as constants where they depend on nothing but constants and *budget* allows it, else as they are.

    *inputs* are the inputs of the ONNX node that made them; the span of the new constants is *span*.
    """
    if any(i is not None and not isinstance(i, Constant) for i in inputs):
        return list(outputs)
    pending = [o for o in outputs if not isinstance(o, Constant)]
    if not pending or not _is_constant(pending):
        return list(outputs)
    if not all(isinstance(infer_expr(o), TensorType) for o in pending):  # sequences: their elements are folded
        return list(outputs)
    for output in pending:
        infer_expr(output)
    calls = calls_below(pending)
    if not all(t.is_static for call in calls for t in tensor_types(call.checked_type)):
        # sizes come to light one call after another
        return [o if isinstance(o, Constant) else fold_constant.fold_constants(o, budget=budget) for o in outputs]
    if _only_moves_much(calls):
        return list(outputs)
    sources = origins(constants_below(pending))
    if not budget.allows(calls, sources):
        return list(outputs)
    from byoc.relay.interpreter import evaluate

    values = evaluate(Tuple(pending))
    assert isinstance(values, list)  # of a tuple
    made = iter(values)
    folded: list[RelayExpr] = [o if isinstance(o, Constant) else kept(_own(next(made)), span) for o in outputs]
    note_origins([f for f, o in zip(folded, outputs, strict=True) if f is not o], sources)
    return folded


def _only_moves_much(calls: Sequence[Call]) -> bool:
    """Whether *calls* only move a large constant: an embedding that is a layer's weight too would be there twice.

    The pipeline folds it, where what it does with it has not made the move unnecessary.
    """
    return all(isinstance(c.op, Op) and c.op.traits.kind in _MOVING for c in calls) and any(
        type_bytes(c.checked_type) > LARGE for c in calls
    )


def kept(array: np.ndarray, span: AnySpan | None = None) -> Constant:
    """A constant of *array* itself, which nobody else writes to; of a copy where its memory is only read."""
    return Constant(NDArray(array if array.flags.writeable else array.copy()), span)


def _own(value: object) -> np.ndarray:
    """*value* in memory of its own: a kernel may have given a view of another constant."""
    array = np.asarray(value)
    return array if array.base is None else array.copy()


class ConstantFolder:
    """Folds single expressions during one import; remembers what depends on constants, so that all walks are linear."""

    def __init__(self, budget: FoldingBudget) -> None:
        self._budget = budget
        self._constant: dict[RelayExpr, bool] = {}
        self._folded: dict[tuple[object, ...], RelayExpr] = {}

    def fold(self, expr: RelayExpr) -> RelayExpr:
        """*expr* as a constant where it depends on constants alone and is small, else as it is.

        The same operator on the same constants (a weight that many nodes transpose) is folded once.
        """
        if not isinstance(expr, Call):
            return self._fold(expr)
        if not any(isinstance(arg, Constant) for arg in expr.args):
            return self._fold(expr)
        key = (expr.op, expr.attrs, expr.args)
        if key not in self._folded:
            self._folded[key] = self._fold(expr)
        return self._folded[key]

    def _fold(self, expr: RelayExpr) -> RelayExpr:
        known = self._constant
        for node in post_order(expr, lambda e: () if e in known or type(e) not in _FOLDABLE else children(e)):
            if node not in known:
                known[node] = _is_foldable(node) and all(known[c] for c in children(node))
        if not known[expr]:
            return expr
        return fold_constants([expr], (), expr.span, self._budget)[0]


_FOLDABLE = (Call, Constant, Tuple, TupleGetItem)


def _is_foldable(node: RelayExpr) -> bool:
    """Whether *node* may be computed now; quantized weights stay for whoever computes on integers."""
    if isinstance(node, Call):
        return isinstance(node.op, Op) and not node.op.traits.quantized
    return isinstance(node, _FOLDABLE)


def _is_constant(roots: Sequence[RelayExpr]) -> bool:
    """True when everything under *roots* is an operator's call on constants."""
    stack, seen = list(roots), set(roots)
    while stack:
        node = stack.pop()
        if not _is_foldable(node):
            return False
        for child in children(node):
            if child not in seen:
                seen.add(child)
                stack.append(child)
    return True
