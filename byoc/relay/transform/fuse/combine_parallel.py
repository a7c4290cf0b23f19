"""Combining operators that share their input: what CombineParallelConv2D, -Dense and -BatchMatmul have in common.

A *branch* is a call of the operator followed by broadcast operators, each the only reader of the one before. Branches
on the same input whose heads are compatible form a *group*; a group is computed by one operator, level by level as far
as all its branches do the same, and each branch reads its share of the result. Invariant: the result is acyclic; a
group whose branches wait for each other is left as it is. Source: ``src/relay/transforms/combine_parallel_op.cc``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count

from byoc.ir.expr import RelayExpr
from byoc.ir.module import IRModule
from byoc.ir.op import Op, OpPattern
from byoc.ir.passes.pass_info import REWRITES, Law, Numbers
from byoc.ir.passes.transform import PassContext, PassInfo
from byoc.ir.types import TensorType, tensor_types
from byoc.relay.analysis.module_types import infer_function
from byoc.relay.analysis.operator_calls import calls
from byoc.relay.expr import Call, Function
from byoc.relay.narrowing import as_function
from byoc.relay.transform.base.fusion_graph import fusion_children
from byoc.relay.transform.base.infer_type import FunctionPass
from byoc.relay.traverse import post_order, rewrite

Branch = list[Call]
BranchGroup = list[Branch]


def tensor(expr: RelayExpr) -> TensorType:
    """The type of a tensor expression that has been typed."""
    return tensor_types(expr.checked_type)[0]


class ParallelCombiner:
    """How one operator is combined; subclasses say what is compatible and how the combined calls are made."""

    operator = ""

    def is_supported(self, call: Call) -> bool:
        """True when *call* may head a branch."""
        return True

    def are_compatible(self, a: Call, b: Call) -> bool:
        """True when two heads on one input can be one call."""
        raise NotImplementedError

    def combine(self, group: BranchGroup) -> Call:
        """The call that computes the heads of *group*."""
        raise NotImplementedError

    def is_argument_compatible(self, head: Call, a: Call, b: Call, index: int) -> bool:
        """True when argument *index* of two calls at one level of their branches can be joined; *head* is a's."""
        raise NotImplementedError

    def follow(self, data: RelayExpr, group: BranchGroup, level: int, parent: int) -> Call:
        """The combined call of *level* on combined *data*, which is argument *parent* of each branch's call."""
        raise NotImplementedError

    def shares(self, data: RelayExpr, group: BranchGroup) -> list[RelayExpr]:
        """What each branch takes of the combined result."""
        raise NotImplementedError


def _readers(root: RelayExpr) -> dict[RelayExpr, list[RelayExpr]]:
    """Every reader of each node under *root*, in order; a node that reads twice stands twice."""
    readers: dict[RelayExpr, list[RelayExpr]] = {}
    for node in post_order(root, fusion_children):
        for child in fusion_children(node):
            readers.setdefault(child, []).append(node)
    return readers


def _branch(head: Call, readers: Mapping[RelayExpr, list[RelayExpr]]) -> Branch:
    """*head* and the operators up to broadcasts that follow it, each the only reader of the one before."""
    branch = [head]
    while len(readers.get(branch[-1], ())) == 1:
        call = readers[branch[-1]][0]
        if not isinstance(call, Call) or not isinstance(call.op, Op):
            break
        pattern = call.op.get_attr("TOpPattern")
        if pattern is None or int(pattern) > OpPattern.BROADCAST:
            break
        branch.append(call)
    return branch


def find_groups(root: RelayExpr, combiner: ParallelCombiner) -> list[BranchGroup]:
    """The groups of branches under *root* by their input, in the order of their first heads."""
    readers = _readers(root)
    heads: dict[RelayExpr, list[Call]] = {}
    for node in post_order(root, fusion_children):
        if calls(node, combiner.operator) and combiner.is_supported(node):
            heads.setdefault(node.args[0], []).append(node)
    groups: list[BranchGroup] = []
    for alike in heads.values():
        here: list[BranchGroup] = []
        for call in alike:
            group = next((g for g in here if combiner.are_compatible(call, g[0][0])), None)
            if group is None:
                here.append(group := [])
            group.append(_branch(call, readers))
        groups += here
    return groups


def _combinable(group: BranchGroup, level: int, parent: int, combiner: ParallelCombiner) -> bool:
    """True when all branches do the same at *level*, on arguments that can be joined."""
    head, first = group[0][0], group[0][level]
    if tensor(first).ndim != tensor(head).ndim:
        return False
    for branch in group[1:]:
        call = branch[level]
        if call.op is not first.op or call.attrs != first.attrs or len(call.args) != len(first.args):
            return False
        if call.args[parent] is not branch[level - 1] or tensor(call).ndim != tensor(head).ndim:
            return False
        others = (k for k in range(len(first.args)) if k != parent)
        if not all(combiner.is_argument_compatible(head, first, call, k) for k in others):
            return False
    return True


def _combine(group: BranchGroup, combiner: ParallelCombiner) -> dict[RelayExpr, RelayExpr]:
    """The last combined call of each branch, with what replaces it."""
    combined, level = combiner.combine(group), 0
    for level in count(1):
        if level == min(map(len, group)):
            break
        parent = group[0][level].args.index(group[0][level - 1])
        if not _combinable(group, level, parent, combiner):
            break
        combined = combiner.follow(combined, group, level, parent)
    ends = [branch[level - 1] for branch in group]
    return dict(zip(ends, combiner.shares(combined, group), strict=True))


class _Replacement:
    """A graph in which some nodes stand for others."""

    def __init__(self, instead: Mapping[RelayExpr, RelayExpr]):
        self.instead = instead

    def children(self, node: RelayExpr) -> Sequence[RelayExpr]:
        other = self.instead.get(node)
        return fusion_children(node) if other is None else (other,)

    def waits_for_itself(self, root: RelayExpr) -> RelayExpr | None:
        """A replaced node that lies on a cycle, or None."""
        done: set[RelayExpr] = set()
        way: dict[RelayExpr, None] = {}
        stack: list[tuple[RelayExpr, bool]] = [(root, False)]
        while stack:
            node, leave = stack.pop()
            if leave:
                del way[node]
                done.add(node)
            elif node in way:
                nodes = list(way)
                return next(n for n in nodes[nodes.index(node) :] if n in self.instead)
            elif node not in done:
                way[node] = None
                stack.append((node, True))
                stack += ((child, False) for child in self.children(node))
        return None

    def apply(self, root: RelayExpr) -> RelayExpr:
        """*root* with the replacements in place, themselves replaced within."""
        done: dict[RelayExpr, RelayExpr] = {}

        def replaced(before: RelayExpr, after: RelayExpr) -> RelayExpr:
            return done[self.instead[before]] if before in self.instead else after

        return rewrite(root, replaced, self.children, done)


def combine_parallel(root: RelayExpr, combiner: ParallelCombiner, min_num_branches: int) -> RelayExpr:
    """The typed *root* with groups of at least *min_num_branches* branches computed by one operator each."""
    parts = [_combine(g, combiner) for g in find_groups(root, combiner) if len(g) >= min_num_branches]
    while parts:
        graph = _Replacement({node: new for part in parts for node, new in part.items()})
        stuck = graph.waits_for_itself(root)
        if stuck is None:
            return graph.apply(root)
        parts = [part for part in parts if stuck not in part]
    return root


LAW = Law("products that read one input are one product over their weights side by side", Numbers.ROUNDING)


def combiner_pass(name: str, combiner: type[ParallelCombiner], min_num_branches: int) -> FunctionPass:
    """The function pass *name*, of level 4, that combines by *combiner*."""

    def run(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        typed = infer_function(func, mod)
        return as_function(combine_parallel(typed, combiner(), min_num_branches))

    return FunctionPass(run, PassInfo(name, 4, ("InferType",), ends=REWRITES, law=LAW))
