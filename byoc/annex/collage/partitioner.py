"""The search: which disjoint candidates cover a function at the least cost.

Candidates are gathered and pruned; then Dijkstra's algorithm runs over sets of covered nodes. From a set only those
candidates are tried that begin at the first node not yet covered; ties go to the set with the earlier nodes, and to the
way that was found first. Source: Collage's ``Partitioner``.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

from byoc.annex.collage.candidate_cache import CandidateFunctionCache
from byoc.annex.collage.candidate_partition import CandidatePartition, max_coalesce, rewrite_candidates
from byoc.annex.collage.cost_estimator import CostEstimator
from byoc.annex.collage.dataflow_graph import DataflowGraph
from byoc.annex.collage.index_set import IndexSet, comes_first, first_outside
from byoc.annex.collage.partition_spec import PartitionSpec
from byoc.annex.collage.pruning import prune_candidates
from byoc.annex.collage.sub_expr_kind import sub_expr_kind_and_label
from byoc.errors import PartitionError
from byoc.relay.expr import Function
from byoc.relay.narrowing import as_function


@dataclass
class _State:
    """A set of covered nodes: the least cost known, and how it was reached."""

    covered: IndexSet
    cost: float
    before: _State | None = None
    candidate: CandidatePartition | None = None
    done: bool = False


class _Waiting:
    """A state in the queue, at the cost that it had when it was put there."""

    __slots__ = ("cost", "state")

    def __init__(self, state: _State):
        self.state, self.cost = state, state.cost

    def __lt__(self, other: _Waiting) -> bool:
        if self.cost != other.cost:
            return self.cost < other.cost
        return comes_first(self.state.covered, other.state.covered)


class Partitioner:
    """One search over *function*, whose types are inferred."""

    def __init__(
        self,
        specs: list[PartitionSpec],
        function: Function,
        estimator: CostEstimator,
        cache: CandidateFunctionCache,
    ):
        self._graph = DataflowGraph(function)
        self._estimator, self._cache = estimator, cache
        self._at: list[list[CandidatePartition]] = [[] for _ in self._graph.nodes]
        candidates = [candidate for spec in specs for candidate in spec.all_candidates(self._graph)]
        for candidate in prune_candidates(candidates):
            self._at[candidate.sub_graph.first_inside_index].append(candidate)

    def partition(self) -> Function:
        """The function with its share for each external compiler in functions of its own.

        Raises PartitionError for a node that no target takes.
        """
        chosen = max_coalesce(self.best_candidates())
        return as_function(rewrite_candidates(self._graph, chosen))

    def best_candidates(self) -> list[CandidatePartition]:
        """The disjoint candidates of least cost that cover every node, the last one first."""
        start = _State(0, 0.0)
        states: dict[IndexSet, _State] = {0: start}
        queue = [_Waiting(start)]
        while queue:
            state = heapq.heappop(queue).state
            if state.done:
                continue  # it was put there again when its cost fell
            state.done = True
            index = first_outside(state.covered)
            if index >= len(self._graph):
                return _chosen(state)
            self._relax(state, index, states, queue)
        raise PartitionError("the search for a partition ended before every node was covered")

    def _relax(self, state: _State, index: int, states: dict[IndexSet, _State], queue: list[_Waiting]) -> None:
        found = False
        for candidate in self._at[index]:
            inside = candidate.sub_graph.inside
            if inside & state.covered:
                continue
            found = True
            cost = candidate.estimated_cost(self._estimator, self._cache) + state.cost
            covered = inside | state.covered
            known = states.get(covered)
            if known is None or cost < known.cost:
                if known is None:
                    known = states[covered] = _State(covered, cost)
                known.cost, known.before, known.candidate = cost, state, candidate
                heapq.heappush(queue, _Waiting(known))
        if not found:
            label = sub_expr_kind_and_label(self._graph.nodes[index])[1]
            raise PartitionError(
                f"No candidate was found covering sub-expression at index {index} ({label}): none of the targets "
                "takes it; add a target that runs all operators, such as llvm"
            )


def _chosen(state: _State) -> list[CandidatePartition]:
    chosen: list[CandidatePartition] = []
    at: _State | None = state
    while at is not None and at.candidate is not None:
        chosen.append(at.candidate)
        at = at.before
    return chosen
