"""Decisions of the run between values of different ranks: what stands behind them is imported for either rank.

PyTorch's exporter writes ``x.squeeze(1)``, where the size of axis 1 is free, as an ``If`` between a squeezed tensor and
the tensor itself, and ``x.squeeze()`` as a Squeeze without axes, which drops each size that is 1 in this run. No type
is that of both. What stands behind mostly computes from one of them only, so each is tried: where the rest is imported
behind one alone, the model is that, and its run checks the condition (``check_condition``). Where it is imported behind
both, all that follows becomes two functions between which the run decides, if their outputs have one type. Where they
have not, the outputs of the model, which nothing computes with, have the rank that the run gives them (``AnyRank``).
Outputs of a branch, or of a function's body in the place of its call, are computed with: there the decision becomes one
of the node around it, and with it all that follows that node is tried (``Body.forced``). In a loop's body, which has
one type in all runs, a Squeeze takes free sizes for more than 1, at which the run looks too, and an If is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from byoc import relay
from byoc.errors import ImportModelError
from byoc.ir.expr import RelayExpr
from byoc.ir.span import Span
from byoc.relay.analysis.type_infer import infer_expr
from byoc.relay.frontend.onnx.node import BranchesDifferError, OnnxNode
from byoc.relay.frontend.onnx.scope import Body, CapturingScope, NodesToConvert, as_sequence
from byoc.relay.frontend.onnx.subgraphs import InnerFunctions, InnerGraph, InnerSizes, TakenDecision

BRANCHES = ("then_branch", "else_branch")
MOST = 64  # trials of one model; each decision behind another one that is tried doubles them


def from_one_branch(node: OnnxNode) -> list[RelayExpr]:
    """The outputs of the branch for the condition that is taken; a run whose condition is not that is an error."""
    known = node.value(0)
    if known is not None:
        return node.services.subgraph(node.attrs.graph(BRANCHES[0 if bool(known.reshape(())) else 1]), node.taken)
    taken, inside = node.taken[0].condition, node.taken[1:]
    condition = relay.reshape(node[0], [])
    outputs = node.services.subgraph(node.attrs.graph(BRANCHES[0 if taken else 1]), inside)
    check = f"{node.place}: the condition"
    checked: list[RelayExpr] = []
    for output in outputs:
        if node.rank(output):
            checked.append(relay.check_condition(output, condition, taken, check))
        else:
            vector = relay.check_condition(relay.reshape(output, [1]), condition, taken, check)
            checked.append(relay.reshape(vector, []))
    return checked


def _around(error: BranchesDifferError, rest: NodesToConvert) -> BranchesDifferError:
    """The decision of *error*, which is met in *rest*, as one of the node around these."""
    error.path = (rest.first, *error.path)
    return error


class BranchTrials:
    """The trials of one import, of which no more than MOST are made.

    *ones* are the sizes of which it is decided, by name, whether they are 1; *convert* imports nodes into a scope.
    """

    def __init__(
        self,
        functions: InnerFunctions,
        sizes: InnerSizes,
        ones: dict[str, bool],
        convert: Callable[[NodesToConvert, Body], None],
    ):
        self._functions, self._sizes, self._ones, self._convert = functions, sizes, ones, convert
        self._left = MOST
        self._around: set[tuple[str | int, ...]] = set()  # decisions that were found to be ones of the node around

    def go_on(self, error: BranchesDifferError, rest: NodesToConvert, body: Body) -> None:
        """Let the scope of *body* have what *rest* makes of the decision of *error*.

        Raises ImportModelError, as *error* says it, where nothing can be made of it, and *error* itself where it is a
        decision of the node around the body.
        """
        if body.forced and body.forced[0].path == (rest.first, *error.path):
            return self._decide(error, body.forced.pop(0).condition, rest, body)
        place = (*rest.nodes[rest.first].output, *error.path)
        if body.forced is not None and place in self._around:
            raise _around(error, rest)
        before = body.scope.state(), self._functions.state()
        made, differ = {}, self._left < 2
        own = body if body.forced is None else replace(body, forced=[])
        for condition in (True, False) if self._left >= 2 and error.condition is not None else ():
            self._left -= 1
            try:
                self._decide(error, condition, rest, own)
            except BranchesDifferError:  # of a decision behind this one, which is not the body's own
                differ = True
            except ImportModelError:
                pass
            else:
                made[condition] = (body.scope.state(), self._functions.state())
            body.scope.restore(before[0])
            self._functions.restore(before[1])
            if differ:
                break
        if len(made) == 2:
            try:
                return self._either(error, rest, own)
            except ImportModelError:  # the outputs differ in rank too
                differ = True
                self._functions.restore(before[1])
        if differ and body.forced is not None:
            self._around.add(place)
            raise _around(error, rest)
        if error.both and self._left < 2:
            raise ImportModelError(str(error)) from error
        alone = next(iter(made)) if len(made) == 1 else error.assumed
        found = None if alone is None else made.get(alone)
        if found is not None:
            body.scope.restore(found[0])
            self._functions.restore(found[1])
        elif error.assumed is not None:
            self._decide(error, error.assumed, rest, body)
        else:
            raise ImportModelError(str(error)) from error

    def _decide(self, error: BranchesDifferError, condition: bool, rest: NodesToConvert, body: Body) -> None:
        """Import *rest* for one *condition*."""
        before = dict(self._ones)
        if error.size:
            self._ones[error.size] = condition
        else:
            rest = replace(rest, taken=(*rest.taken, TakenDecision(error.path, condition)))
        try:
            self._convert(rest, body)
        finally:
            self._ones.clear()
            self._ones.update(before)

    def _either(self, error: BranchesDifferError, rest: NodesToConvert, body: Body) -> None:
        """Import *rest* as two functions. Raises ImportModelError where their outputs have no type in common."""
        from byoc.relay.frontend.onnx.decisions import decided, of_any_rank

        assert error.condition is not None and error.node is not None
        then, other = (self._function(error, condition, rest, body) for condition in (True, False))
        if rest.names:  # outputs of the model
            then, other = of_any_rank(then, other)
        infer_expr(error.condition)
        made = decided(error.node, error.condition, (then, other), rest.made())
        for name, value in zip(rest.made(), made, strict=True):
            infer_expr(value)
            value.span = Span.named(error.node.name)
            body.scope[name] = value

    def _function(self, error: BranchesDifferError, condition: bool, rest: NodesToConvert, body: Body) -> InnerGraph:
        scope = CapturingScope(body.scope, self._sizes.named)
        self._decide(error, condition, replace(rest, declared=None), replace(body, scope=scope))
        outputs = [scope.find(name) for name in rest.made()]
        return InnerGraph((), scope.captured, [as_sequence(output) for output in outputs if output is not None])
