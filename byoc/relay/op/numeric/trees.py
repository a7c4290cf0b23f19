"""``tree_ensemble``: decision trees, and the sum of what their leaves say. Source: ONNX TreeEnsemble-5 (ai.onnx.ml).

A node is a row ``(feature, mode, true, false, missing)`` of a table: where the feature compares with the node's split
as the mode says, or is NaN and *missing* is 1, the row *true* comes next, else the row *false*. A leaf has the last of
the modes; its votes are rows ``(node, target)``, in the order of the nodes, with a weight each.
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
from byoc.runtime.kernels.trees import AGGREGATES, LEAF


@dataclass(frozen=True)
class TreeEnsembleAttrs(Attrs):
    """Attributes of ``tree_ensemble``: how many targets there are, and what becomes of the votes for one."""

    targets: int = 1
    aggregate: str = "sum"


def _rel(types: Sequence[Type], attrs: TreeEnsembleAttrs) -> Type:
    ranks = (("data", 2), ("nodes", 2), ("splits", 1), ("roots", 1), ("votes", 2), ("weights", 1))
    data, nodes, splits, _, votes, weights = (tensor_of(t, r, n) for t, (n, r) in zip(types, ranks, strict=True))
    if not is_float(data.dtype) or attrs.aggregate not in AGGREGATES or attrs.targets < 1:
        raise TypeInferenceError(
            f"takes floats, at least one target and an aggregate of {', '.join(AGGREGATES)}, got {data}, "
            f"{attrs.targets} and {attrs.aggregate!r}"
        )
    if differ(nodes.shape[0], splits.shape[0]) or differ(votes.shape[0], weights.shape[0]):
        raise TypeInferenceError(f"{nodes} and {splits}, {votes} and {weights} must have as many rows")
    if differ(nodes.shape[1], 5) or differ(votes.shape[1], 2):
        raise TypeInferenceError(f"a node is 5 numbers and a vote 2, got {nodes} and {votes}")
    return TensorType((data.shape[0], attrs.targets), data.dtype)


_LEAF = [0, LEAF, 0, 0, 0]
_NODES = np.array([[0, 0, 1, 2, 0], [1, 3, 3, 4, 1], _LEAF, _LEAF, _LEAF, [1, 1, 6, 7, 0], _LEAF, _LEAF], "int64")
_TREES = [
    _NODES,
    np.linspace(-0.3, 0.3, 8).astype("float32"),
    np.array([0, 5], "int64"),
    np.array([[2, 0], [2, 1], [3, 1], [4, 0], [6, 0], [7, 1]], "int64"),
    np.array([0.5, -1.0, 2.0, 0.25, 3.0, -2.0], "float32"),
]
register_op(
    "tree_ensemble",
    inputs=("data", "nodes", "splits", "roots", "votes", "weights"),
    attrs=TreeEnsembleAttrs,
    rel=_rel,
    traits=Traits(OpKind.OTHER, precision=Conversion.NEVER),
    doc="What the leaves of decision trees say of each row of features, for each target.",
    samples=tuple(Sample([(9, 2), *_TREES], {"targets": 2, "aggregate": a}) for a in AGGREGATES),
)


def tree_ensemble(
    data: Operand,
    nodes: Operand,
    splits: Operand,
    votes: tuple[Operand, Operand],
    roots: Operand,
    attrs: TreeEnsembleAttrs,
) -> Call:
    """``T[N, features] -> T[N, targets]``, added up in float64; *votes* are rows and weights: TreeEnsemble-5."""
    inputs = (data, nodes, splits, roots, *votes)
    return make_call("tree_ensemble", [as_expr(value) for value in inputs], attrs)
