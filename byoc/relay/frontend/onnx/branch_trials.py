"""Decisions between values of different ranks: the branch from which the rest of a model can be computed.

PyTorch's exporter writes ``x.squeeze(1)``, where the size of axis 1 is free, as an ``If`` between a squeezed tensor and
the tensor itself. No type is that of both. What stands behind mostly computes from one of them only, so each branch is
tried: where the rest is imported behind one alone, the model is that, and its run checks the condition
(``check_condition``). Where it is imported behind both, the model computes with either rank, and is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from byoc.errors import ImportModelError
from byoc.relay.frontend.onnx.node import BranchesDifferError
from byoc.relay.frontend.onnx.scope import OnnxScope
from byoc.relay.frontend.onnx.subgraphs import InnerFunctions

MOST = 64  # trials of one model; each decision behind another one that is tried doubles them


class BranchTrials:
    """The trials of one import, of which no more than MOST are made."""

    def __init__(self, functions: InnerFunctions):
        self._functions, self._left = functions, MOST

    def go_on(self, error: BranchesDifferError, scope: OnnxScope, rest: Callable[[bool], None]) -> None:
        """Let *scope* have what ``rest(condition)`` makes of the one condition with which it ends without an error.

        Raises *error* where that is none or both.
        """
        before = scope.state(), self._functions.state()
        made = []
        for condition in (True, False):
            if self._left <= 0:
                raise error
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
            raise error
        scope.restore(made[0][0])
        self._functions.restore(made[0][1])
