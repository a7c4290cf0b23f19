"""``pairwise_coupling``: probabilities of classes from those of each pair of them.

Source: Wu, Lin and Weng, "Probability estimates for multi-class classification by pairwise coupling", the second
method; SVMClassifier-1 of ai.onnx.ml.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from byoc.errors import TypeInferenceError
from byoc.ir.attrs import Attrs
from byoc.ir.op import Sample, register_op
from byoc.ir.traits import Conversion, OpKind, Traits
from byoc.ir.types import TensorType, Type
from byoc.relay.expr import Call
from byoc.relay.op.core.builder import Operand, as_expr, make_call
from byoc.relay.op.core.type_relations import is_float
from byoc.relay.op.core.window import differ, tensor_of


@dataclass(frozen=True)
class PairwiseCouplingAttrs(Attrs):
    """Attributes of ``pairwise_coupling``."""

    classes: int = 2


def _rel(types: Sequence[Type], attrs: PairwiseCouplingAttrs) -> Type:
    data, pairs = tensor_of(types[0], 2, "data"), attrs.classes * (attrs.classes - 1) // 2
    if attrs.classes < 2 or differ(data.shape[1], pairs) or not is_float(data.dtype):
        raise TypeInferenceError(f"{attrs.classes} classes need floats [rows, {pairs}], got {data}")
    return TensorType((data.shape[0], attrs.classes), data.dtype)


_PAIRS = np.array([[0.9, 0.6, 0.2], [0.5, 0.5, 0.5], [1e-7, 0.3, 0.8]], "float32")
register_op(
    "pairwise_coupling",
    inputs=("data",),
    attrs=PairwiseCouplingAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.NEVER),
    doc="Probabilities of classes from those of the first of each pair.",
    samples=(Sample([_PAIRS], {"classes": 3}), Sample([_PAIRS[:, :1].astype("float64")])),
)


def pairwise_coupling(data: Operand, classes: int) -> Call:
    """``T[N, classes (classes - 1) / 2] -> T[N, classes]``; pairs in the order (0, 1), (0, 2), ... Source: ONNX."""
    return make_call("pairwise_coupling", [as_expr(data)], PairwiseCouplingAttrs(classes))
