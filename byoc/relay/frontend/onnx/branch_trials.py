"""Decisions between values of different ranks: the branch from which the rest of a model can be computed.

PyTorch's exporter writes ``x.squeeze(1)``, where the size of axis 1 is free, as an ``If`` between a squeezed tensor and
the tensor itself. No type is that of both. What stands behind mostly computes from one of them only, so each branch is
tried: where the rest is imported behind one alone, the model is that, and its run checks the condition
(``check_condition``). Where it is imported behind both, the model computes with either rank, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc import relay
from byoc.errors import ImportModelError
from byoc.ir.expr import RelayExpr
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.scope import OnnxScope
from byoc.relay.frontend.onnx.subgraphs import InnerFunctions

BRANCHES = ("then_branch", "else_branch")
MOST = 64  # trials of one model; each decision behind another one that is tried doubles them


def from_one_branch(node: OnnxNode, taken: bool) -> list[RelayExpr]:
    """The outputs of the branch for a condition that is *taken*; a run whose condition is not is an error."""
    condition = relay.reshape(node[0], [])
    outputs = node.services.subgraph(node.attrs.graph(BRANCHES[0 if taken else 1]))
    check = f"{node.place}: the condition"
    checked: list[RelayExpr] = []
    for output in outputs:
        if node.rank(output):
            checked.append(relay.check_condition(output, condition, taken, check))
        else:
            vector = relay.check_condition(relay.reshape(output, [1]), condition, taken, check)
            checked.append(relay.reshape(vector, []))
    return checked


class BranchTrials:
    """The trials of one import, of which no more than MOST are made."""

    def __init__(self, functions: InnerFunctions):
        self._functions, self._left = functions, MOST

    def go_on(self, error: BranchesDifferError, scope: OnnxScope, rest: Callable[[bool], None]) -> None:
        """Let *scope* have what ``rest(condition)`` makes of the one condition with which it ends without an error.

        Raises ImportModelError, as *error* says it, where that is none or both.
        """
        refused = ImportModelError(str(error))
        before = scope.state(), self._functions.state()
        made = []
        for condition in (True, False):
            if self._left <= 0:
                raise refused from error
            self._left -= 1
            try:
                rest(condition)
            except ImportModelError:
                pass
            else:
                made.append((scope.state(), self._functions.state()))
            scope.restore(before[0])
            self._functions.restore(before[1])
        if len(made) != 1:
            raise refused from error
        scope.restore(made[0][0])
        self._functions.restore(made[0][1])
