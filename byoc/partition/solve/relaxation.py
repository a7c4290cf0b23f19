"""A pairwise model of a placement problem, and bounds and labellings of it by messages along the graph.

Each operator takes one of its candidates as label; an edge costs what its tensors cost to bring between the sites, a
tensor's share being the same for each of its readers, and says that a candidate of several operators is taken by all
of them. What a launch costs stands on edges where the site changes. With launches on one directed path for each
connected part of the graph the model's least is below the cost of every placement: a region is convex, so that it
meets the path in one piece. With launches on an edge into every operator it is no bound, but a better guide.
Messages are sequential tree-reweighted ones. Source: Kolmogorov, "Convergent tree-reweighted message passing for
energy minimization", PAMI 28(10), 2006.
"""

from __future__ import annotations

import operator
import time
from collections.abc import Iterable, Sequence

from byoc.partition.problem import HOME, Problem
from byoc.partition.solve.paths import components

Table = list[list[float]]  # by label of the start, label of the end


class LabelModel:
    """The pairwise model: ``labels[o]`` are candidates, ``alone[o]`` their costs, ``edges`` tables of costs."""

    def __init__(self, problem: Problem, usable: Sequence[int], as_bound: bool):
        self.problem = problem
        allowed = set(usable)
        self.labels = [[c for c in covering if c in allowed] for covering in problem.covering]
        self.sites = [[problem.candidates[c].site for c in labels] for labels in self.labels]
        self.price = [s.launch + s.bounds.min_gain if p else 0.0 for p, s in enumerate(problem.sites)]
        self.conflict = 1.0 + 4 * sum(max((problem.candidates[c].seconds for c in ls), default=0) for ls in self.labels)
        parents = main_parents(problem)
        into_each = [(p, o) for o, p in enumerate(parents) if p >= 0]
        self.launching = set(_paths(problem, parents) if as_bound else into_each)
        entered = {v for _, v in self.launching}
        starts = {u for u, _ in self.launching} if as_bound else set(range(problem.operators))
        lonely = _lonely(problem) if as_bound else set()
        self.begins = {o for o in starts | lonely if o not in entered}
        self.alone = [self._alone(o) for o in range(problem.operators)]
        self._share_values()
        self.table = [self._table(k) for k in range(len(problem.edges))]

    def _alone(self, node: int) -> list[float]:
        candidates = self.problem.candidates
        begins = node in self.begins
        return [
            candidates[c].seconds / len(candidates[c].operators) + (self.price[candidates[c].site] if begins else 0.0)
            for c in self.labels[node]
        ]

    def _share_values(self) -> None:
        """Adds what inputs and results cost to their operators, and keeps the tensors of each edge."""
        self.on_edge: dict[tuple[int, int], list[tuple[Table, bool]]] = {}
        transfer = self.problem.transfer.tolist()
        for t, value in enumerate(self.problem.values):
            readers = sorted(set(value.consumers))
            share = 1.0 / max(1, len(readers))
            if value.producer is None:
                for reader in readers:
                    alone = self.alone[reader]
                    for k, site in enumerate(self.sites[reader]):
                        alone[k] += transfer[t][HOME][site] * share
                continue
            if value.result:
                alone = self.alone[value.producer]
                for k, site in enumerate(self.sites[value.producer]):
                    alone[k] += transfer[t][site][HOME]
            scaled = [[seconds * share for seconds in row] for row in transfer[t]]
            for reader in readers:
                self.on_edge.setdefault((value.producer, reader), []).append((scaled, value.result))

    def _table(self, edge: int) -> Table:
        u, v = self.problem.edges[edge]
        tensors = self.on_edge[u, v]
        launches = (u, v) in self.launching
        starts, ends = dict.fromkeys(self.sites[u]), dict.fromkeys(self.sites[v])
        by_site = {
            p: {
                q: 0.0
                if p == q
                else sum(scaled[p][q] for scaled, result in tensors if not (result and q == HOME))
                + (self.price[q] if launches else 0.0)
                for q in ends
            }
            for p in starts
        }
        candidates = self.problem.candidates
        table = [[by_site[p][q] for q in self.sites[v]] for p in self.sites[u]]
        for k, c in enumerate(self.labels[u]):
            if len(candidates[c].operators) > 1 and v in candidates[c].operators:
                table[k] = [0.0 if other == c else self.conflict for other in self.labels[v]]
        for k, c in enumerate(self.labels[v]):
            if len(candidates[c].operators) > 1 and u in candidates[c].operators:
                for j, other in enumerate(self.labels[u]):
                    if other != c:
                        table[j][k] = self.conflict
        return table


class Messages:
    """Messages along the edges of a model; ``bound`` is below its least after each round."""

    def __init__(self, model: LabelModel):
        self.model = model
        edges = model.problem.edges
        count = model.problem.operators
        self.out: list[list[int]] = [[] for _ in range(count)]
        self.into: list[list[int]] = [[] for _ in range(count)]
        for k, (u, v) in enumerate(edges):
            self.out[u].append(k)
            self.into[v].append(k)
        self.forward = [[0.0] * len(model.labels[v]) for _, v in edges]
        self.backward = [[0.0] * len(model.labels[u]) for u, _ in edges]
        self.columns = [[list(c) for c in zip(*table, strict=False)] for table in model.table]
        self.weight = [1.0 / max(1, len(i), len(o)) for i, o in zip(self.into, self.out, strict=False)]
        self.bound = 0.0

    def round(self) -> None:
        """One pass from the inputs to the results and one back."""
        self._pass(range(len(self.out)), self.out, self.forward, self.backward, self.columns)
        self.bound = self._pass(
            range(len(self.out) - 1, -1, -1), self.into, self.backward, self.forward, self.model.table
        )

    def _pass(
        self,
        order: Iterable[int],
        following: Sequence[Sequence[int]],
        sent: list[list[float]],
        received: list[list[float]],
        tables: Sequence[Sequence[Sequence[float]]],
    ) -> float:
        bound = 0.0
        add = operator.add
        subtract = operator.sub
        alone, into, out, forward, backward = self.model.alone, self.into, self.out, self.forward, self.backward
        for node in order:
            belief = alone[node]
            for k in into[node]:
                belief = list(map(add, belief, forward[k]))
            for k in out[node]:
                belief = list(map(add, belief, backward[k]))
            least = min(belief)
            bound += least
            targets = following[node]
            if not targets:
                continue
            weight = self.weight[node]
            scaled = [(b - least) * weight for b in belief]
            for k in targets:
                rest = list(map(subtract, scaled, received[k]))
                message = [min(map(add, rest, row)) for row in tables[k]]
                low = min(message)
                bound += low
                sent[k] = [m - low for m in message]
        return bound

    def labelling(self) -> list[int]:
        """A label for each operator, chosen in order: what is settled before it, and what comes back from behind."""
        taken: list[int] = []
        model, edges = self.model, self.model.problem.edges
        for node, cost in enumerate(model.alone):
            for k in self.into[node]:
                cost = [a + b for a, b in zip(cost, model.table[k][taken[edges[k][0]]], strict=False)]
            for k in self.out[node]:
                cost = [a + b for a, b in zip(cost, self.backward[k], strict=False)]
            taken.append(cost.index(min(cost)))
        return [model.labels[o][k] for o, k in enumerate(taken)]


def lower_bound(problem: Problem, usable: Sequence[int], deadline: float, rounds: int = 12) -> float:
    """A number of seconds below the penalized cost of every placement; at least 0."""
    messages = Messages(LabelModel(problem, usable, as_bound=True))
    best = 0.0
    for _ in range(rounds):
        messages.round()
        better = messages.bound
        if better <= best * (1 + 1e-6) and best > 0:
            break
        best = max(best, better)
        if time.monotonic() > deadline:
            break
    return best * (1 - 1e-12)


def main_parents(problem: Problem) -> list[int]:
    """For each operator the one of those it reads that lies deepest; -1 where it reads none."""
    depth = [0] * problem.operators
    parents = [-1] * problem.operators
    for u, v in problem.edges:  # sorted: all edges into u come before those out of it
        if depth[u] + 1 > depth[v]:
            depth[v], parents[v] = depth[u] + 1, u
    return parents


def _paths(problem: Problem, parents: Sequence[int]) -> list[tuple[int, int]]:
    """The edges of a longest directed path of each connected part."""
    part = components(problem.operators, problem.edges)
    depth = [0] * problem.operators
    last: dict[int, int] = {}
    for o in range(problem.operators):
        depth[o] = 0 if parents[o] < 0 else depth[parents[o]] + 1
        if depth[o] > depth[last.setdefault(part[o], o)]:
            last[part[o]] = o
    found = []
    for end in last.values():
        while parents[end] >= 0:
            found.append((parents[end], end))
            end = parents[end]
    return found


def _lonely(problem: Problem) -> set[int]:
    """Operators without edges."""
    met = {o for e in problem.edges for o in e}
    return {o for o in range(problem.operators) if o not in met}
