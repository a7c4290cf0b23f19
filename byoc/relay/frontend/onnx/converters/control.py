"""Branches. Source: ONNX If-1/11/13. Loops and sequences are not imported."""

from __future__ import annotations

from byoc import relay
from byoc.ir.expr import RelayExpr
from byoc.relay.expr import If, Tuple, TupleGetItem
from byoc.relay.frontend.onnx.node import OnnxNode
from byoc.relay.frontend.onnx.registry import converter


@converter("If")
def _if(node: OnnxNode) -> list[RelayExpr]:
    """A condition that is known when importing leaves one branch; else both are kept."""
    known = node.value(0)
    if known is not None:
        return node.services.subgraph(node.attrs.graph("then_branch" if bool(known.reshape(())) else "else_branch"))
    then, other = (node.services.subgraph(node.attrs.graph(name)) for name in ("then_branch", "else_branch"))
    if len(then) != len(other):
        raise node.error(f"the branches have {len(then)} and {len(other)} outputs")
    condition = relay.squeeze(node[0]) if node.rank(node[0]) else node[0]
    if len(then) == 1:
        return [If(condition, then[0], other[0])]
    whole = If(condition, Tuple(then), Tuple(other))
    return [TupleGetItem(whole, k) for k in range(len(then))]
