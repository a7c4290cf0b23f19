"""Losses: ``nn.cross_entropy``, ``nn.cross_entropy_with_logits``, ``nn.nll_loss``. Source: ``relay/op/nn/nn.cc``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from byoc import te
from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import ComputeOf, OpPattern, Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.indexing import as_index
from byoc.relay.op.core.type_relations import is_float, is_integer, same_dtype, tensor_arg, unify_dim
from byoc.te import PrimExpr, Tensor

REDUCTIONS = ("mean", "sum", "none")


@dataclass(frozen=True)
class NLLLossAttrs(Attrs):
    """Attributes of ``nn.nll_loss``: how losses are put together, and the class that has none."""

    reduction: str = "mean"
    ignore_index: int = -100


def _cross_entropy_rel(types: Sequence[Type], attrs: Attrs | None) -> Type:
    x, y = tensor_arg(types, 0, "predictions"), tensor_arg(types, 1, "targets")
    if x.ndim != 2 or y.ndim != 2 or any(unify_dim(a, b) is None for a, b in zip(x.shape, y.shape, strict=True)):
        raise TypeInferenceError(f"predictions and targets must be matrices of one shape, got {x} and {y}")
    dtype = same_dtype([x, y])
    if not is_float(dtype):
        raise TypeInferenceError(f"takes floats, got {dtype}")
    return TensorType((), dtype)


def _cross_entropy_compute(measure: Callable[[PrimExpr], PrimExpr]) -> ComputeOf[Attrs | None, Tensor, TensorType]:
    def compute(attrs: Attrs | None, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
        x, y = inputs
        row, column = te.reduce_axis(x.shape[0]), te.reduce_axis(x.shape[1])
        total = te.compute((), lambda: te.sum(measure(x(row, column)) * y(row, column), [row, column]), "entropy")
        return [te.compute((), lambda: -total() / te.cast(x.dtype, as_index(x.shape[0])), "cross_entropy")]

    return compute


_ONE_HOT = np.eye(4, dtype="float32")[[2, 0, 3]]
_MEASURES: dict[str, tuple[Callable[[PrimExpr], PrimExpr], str]] = {
    "nn.cross_entropy": (te.log, "probabilities"),
    "nn.cross_entropy_with_logits": (lambda v: v, "log-probabilities"),
}
for _name, (_measure, _what) in _MEASURES.items():
    register_op(
        _name,
        inputs=("predictions", "targets"),
        rel=_cross_entropy_rel,
        traits=Traits(OpKind.OTHER, precision=Conversion.NEVER),
        pattern=OpPattern.OPAQUE,
        compute=_cross_entropy_compute(_measure),
        doc=f"The mean cross entropy of targets under {_what}: ``[batch, classes]`` to a scalar.",
        samples=(Sample([(3, 4), _ONE_HOT], low=0.1, high=1.0), Sample([(2, 5), (2, 5)], {}, "float64", 0.2, 0.9)),
    )


def cross_entropy(predictions: Operand, targets: Operand) -> Call:
    """``-sum(targets * log(predictions)) / batch``, a scalar. Source: ``relay.nn.cross_entropy``."""
    return make_call("nn.cross_entropy", [as_expr(predictions), as_expr(targets)])


def cross_entropy_with_logits(predictions: Operand, targets: Operand) -> Call:
    """``-sum(targets * predictions) / batch``, a scalar. Source: ``relay.nn.cross_entropy_with_logits``."""
    return make_call("nn.cross_entropy_with_logits", [as_expr(predictions), as_expr(targets)])


def _nll_rel(types: Sequence[Type], attrs: NLLLossAttrs) -> Type:
    scores, targets = tensor_arg(types, 0, "predictions"), tensor_arg(types, 1, "targets")
    weights = tensor_arg(types, 2, "weights")
    if attrs.reduction not in REDUCTIONS:
        raise TypeInferenceError(f"reduction is one of {', '.join(REDUCTIONS)}, got {attrs.reduction!r}")
    if scores.ndim == 0 or scores.ndim - targets.ndim != 1 or not is_integer(targets.dtype):
        raise TypeInferenceError(f"targets must be integers with one axis less than {scores}, got {targets}")
    classes = 0 if scores.ndim == 1 else 1
    rest = (*scores.shape[:classes], *scores.shape[classes + 1 :])
    if any(unify_dim(a, b) is None for a, b in zip(rest, targets.shape, strict=True)):
        raise TypeInferenceError(f"targets must have the shape {rest}, got {targets.shape}")
    if weights.ndim != 1 or unify_dim(weights.shape[0], scores.shape[classes]) is None:
        raise TypeInferenceError(f"weights must hold a number for each class of {scores}, got {weights}")
    dtype = same_dtype([scores, weights])
    return TensorType(targets.shape if attrs.reduction == "none" else (), dtype)


def _nll_compute(attrs: NLLLossAttrs, inputs: Sequence[Tensor], out_type: TensorType) -> list[Tensor]:
    scores, targets, weights = inputs
    classes, dtype = 0 if scores.ndim == 1 else 1, scores.dtype
    zero = te.const(0.0, dtype)

    def chosen(value: PrimExpr, i: Sequence[PrimExpr]) -> PrimExpr:
        return te.if_then_else(targets[tuple(i)].equal(attrs.ignore_index), zero, value)

    def loss(*i: PrimExpr) -> PrimExpr:
        place = te.cast("int64", targets[tuple(i)])
        return chosen(-scores[(*i[:classes], place, *i[classes:])] * weights[(place,)], i)

    losses = te.compute(targets.shape, loss, "nll_loss")
    if attrs.reduction == "none":
        return [losses]
    if targets.ndim == 0:
        counts = te.compute((), lambda: chosen(weights[(te.cast("int64", targets()),)], ()), "nll_weight")
        whole, weight = losses, counts
    else:
        counts = te.compute(targets.shape, lambda *i: chosen(weights[(te.cast("int64", targets[i]),)], i), "nll_weight")
        whole, weight = _sum_of(losses), _sum_of(counts)
    if attrs.reduction == "sum":
        return [whole]
    return [te.compute((), lambda: whole() / weight(), "nll_mean")]


def _sum_of(tensor: Tensor) -> Tensor:
    axes = [te.reduce_axis(d) for d in tensor.shape]
    return te.compute((), lambda: te.sum(tensor(*axes), axes), "nll_sum")


_CLASSES = np.array([2, 0, 1, -100], "int32")
_GRID = np.array([[[2, 0], [1, 1]], [[0, -100], [2, 2]]], "int64")
register_op(
    "nn.nll_loss",
    inputs=("predictions", "targets", "weights"),
    attrs=NLLLossAttrs,
    rel=_nll_rel,
    pattern=OpPattern.OPAQUE,
    compute=_nll_compute,
    doc="The negative log-likelihood of classes, weighted by class; one class may be ignored.",
    samples=(
        *(Sample([(4, 3), _CLASSES, (3,)], {"reduction": r}, low=0.5, high=2.0) for r in REDUCTIONS),
        *(Sample([(2, 3, 2, 2), _GRID, (3,)], {"reduction": r}, low=0.5, high=2.0) for r in REDUCTIONS),
        Sample([(3,), np.array(1, "int32"), (3,)], low=0.5, high=2.0),
    ),
)


def nll_loss(
    predictions: Operand, targets: Operand, weights: Operand, reduction: str = "mean", ignore_index: int = -100
) -> Call:
    """``-predictions[n, targets[n]] * weights[targets[n]]``, their mean, sum, or each. Source: ``relay.nn.nll_loss``.

    ``T[batch, classes, ...], int[batch, ...], T[classes] -> T[]`` (or the shape of *targets* for ``none``).
    """
    args = [as_expr(predictions), as_expr(targets), as_expr(weights)]
    return make_call("nn.nll_loss", args, NLLLossAttrs(reduction, int(ignore_index)))
