"""Pruning: which candidates are worth a cost estimate.

Larger candidates are preferred: kept are those that no other candidate of their specification contains. Where kept ones
compete for a node they are taken out and the largest of what remains are kept too, until nothing new is kept. Source:
Collage's ``prune_candidates.cc``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from byoc.annex.collage.candidate_partition import CandidatePartition
from byoc.annex.collage.index_set import IndexSet, indexes_of


def prune_candidates(candidates: Sequence[CandidatePartition]) -> list[CandidatePartition]:
    """The candidates to search among, in the order in which they were kept."""
    pool = list(candidates)
    kept: dict[CandidatePartition, None] = {}
    while True:
        before = len(kept)
        kept.update(dict.fromkeys(_maximal(pool)))
        if len(kept) == before:
            return list(kept)
        competing = _competing(kept)
        pool = [candidate for candidate in pool if candidate not in competing]


def _inside(candidate: CandidatePartition) -> IndexSet:
    return candidate.sub_graph.inside


def _maximal(pool: Sequence[CandidatePartition]) -> list[CandidatePartition]:
    """Those of *pool* that no other of their specification contains."""
    by_node: dict[tuple[int, int], list[CandidatePartition]] = {}
    for candidate in pool:
        for index in indexes_of(_inside(candidate)):
            by_node.setdefault((id(candidate.spec), index), []).append(candidate)

    def is_contained(candidate: CandidatePartition) -> bool:
        inside = _inside(candidate)
        near = by_node[id(candidate.spec), candidate.sub_graph.first_inside_index]
        return any(_inside(other) != inside and _inside(other) & inside == inside for other in near)

    return [candidate for candidate in pool if not is_contained(candidate)]


def _competing(kept: Iterable[CandidatePartition]) -> set[CandidatePartition]:
    """Those of *kept* that share nodes, but not all of them, with another one."""
    sets: dict[IndexSet, list[CandidatePartition]] = {}
    for candidate in kept:
        sets.setdefault(_inside(candidate), []).append(candidate)
    by_node: dict[int, list[IndexSet]] = {}
    for inside in sets:
        for index in indexes_of(inside):
            by_node.setdefault(index, []).append(inside)
    meeting = {inside for near in by_node.values() if len(near) > 1 for inside in near}
    return {candidate for inside in meeting for candidate in sets[inside]}
