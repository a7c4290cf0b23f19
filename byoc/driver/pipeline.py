"""The passes from an imported model to one that can be cut, and from a cut one to one that the host can run.

Read top to bottom: this is the order in which everything happens to a graph.
"""

from __future__ import annotations

from byoc.ir.module import IRModule
from byoc.ir.transform import Sequential
from byoc.relay import transform


def simplify() -> Sequential:
    """What is worth doing whoever runs the model: requires types, ensures types."""
    return Sequential(
        [
            transform.InferType(),
            transform.RemoveUnusedFunctions(),
            transform.FoldConstant(),
            transform.SimplifyInference(),
            transform.SimplifyExpr(),
            transform.EliminateCommonSubexpr(),
            transform.FoldConstant(),
            transform.FoldScaleAxis(),
            transform.FoldConstant(),
            transform.SimplifyExpr(),
            transform.DeadCodeElimination(),
            transform.InferType(),
        ],
        name="simplify",
    )


def prepare_host() -> Sequential:
    """The host's share after the cut: fused into groups. Requires regions to be functions of the module."""
    return Sequential(
        [transform.FoldConstant(), transform.DeadCodeElimination(), transform.FuseOps(), transform.InferType()],
        name="prepare_host",
    )


def optimize(mod: IRModule) -> IRModule:
    """*mod* after :func:`simplify`."""
    return simplify()(mod)
