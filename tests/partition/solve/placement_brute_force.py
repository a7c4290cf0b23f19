"""The truth about small placement problems: every cover, every site and every partition into regions is tried.

Written from the problem's definition alone; nothing of the solvers or of their evaluation is used. A branch is left
only where what it has paid already, and the least that the rest must pay for work, reach the best cost known.
"""

from __future__ import annotations

import math

HOME = 0


def best_cost(problem, below=math.inf):
    """The least penalized cost, and how it is reached, or None where no solution costs less than *below*."""
    return _Search(problem, below).run()


class _Search:
    def __init__(self, problem, below):
        self.problem = problem
        self.best = below
        self.found = None
        count = problem.operators
        self.site = [None] * count
        self.region = [None] * count
        self.candidate_of = [None] * count
        self.regions = []  # (site, operators)
        self.paid = [set() for _ in problem.values]
        self.made = [[] for _ in range(count)]
        self.read = [[] for _ in range(count)]
        for number, value in enumerate(problem.values):
            if value.producer is not None:
                self.made[value.producer].append(number)
            for consumer in value.consumers:
                self.read[consumer].append(number)
        self.starting = [[] for _ in range(count)]
        for number, candidate in enumerate(problem.candidates):
            for operator in candidate.operators:
                self.starting[operator].append(number)
        self.share = [
            min((problem.candidates[c].seconds / len(problem.candidates[c].operators) for c in s), default=math.inf)
            for s in self.starting
        ]
        for options in self.starting:
            options.sort(key=lambda c: problem.candidates[c].seconds / len(problem.candidates[c].operators))

    def run(self):
        self.place(0.0, sum(self.share))
        return None if self.found is None else (self.best, *self.found)

    def place(self, paid, rest):
        if paid + rest >= self.best * (1 - 1e-12):
            return
        problem = self.problem
        operator = next((o for o in range(problem.operators) if self.site[o] is None), None)
        if operator is None:
            if self.is_valid():
                self.best = paid
                self.found = (sorted(set(self.candidate_of)), [list(r[1]) for r in self.regions])
            return
        for number in self.starting[operator]:
            candidate = problem.candidates[number]
            if any(self.site[o] is not None for o in candidate.operators):
                continue
            left = rest - sum(self.share[o] for o in candidate.operators)
            if candidate.site == HOME:
                self.take(number, None, paid + candidate.seconds, left)
                continue
            for region in range(len(self.regions)):
                if self.regions[region][0] == candidate.site:
                    self.take(number, region, paid + candidate.seconds, left)
            place = problem.sites[candidate.site]
            sites, most = problem.region_limits.get(candidate.site, ((), None))
            if most is None or sum(r[0] in sites for r in self.regions) < most:
                self.regions.append((candidate.site, []))
                start = paid + candidate.seconds + place.launch + place.bounds.min_gain
                self.take(number, len(self.regions) - 1, start, left)
                self.regions.pop()

    def take(self, number, region, paid, rest):
        candidate = self.problem.candidates[number]
        if region is not None:
            most = self.problem.sites[candidate.site].bounds.max_operators
            if most is not None and len(self.regions[region][1]) + len(candidate.operators) > most:
                return
            self.regions[region][1].extend(candidate.operators)
        for operator in candidate.operators:
            self.site[operator], self.region[operator], self.candidate_of[operator] = candidate.site, region, number
        undo = []
        for operator in candidate.operators:
            paid += self.pay(operator, undo)
        self.place(paid, rest)
        for value, destination in undo:
            self.paid[value].discard(destination)
        for operator in candidate.operators:
            self.site[operator] = self.region[operator] = self.candidate_of[operator] = None
        if region is not None:
            del self.regions[region][1][-len(candidate.operators) :]

    def pay(self, operator, undo):
        """What the tensors that *operator* reads and makes now cost to bring where they are known to be needed."""
        cost = 0.0
        for number in self.read[operator]:
            cost += self.bring(number, operator, undo)
        for number in self.made[operator]:
            for consumer in self.problem.values[number].consumers:
                cost += self.bring(number, consumer, undo)
            if self.problem.values[number].result:
                cost += self.bring(number, None, undo)
        return cost

    def bring(self, number, consumer, undo):
        producer = self.problem.values[number].producer
        source = HOME if producer is None else self.site[producer]
        destination = HOME if consumer is None else self.site[consumer]
        if source is None or destination is None or destination in self.paid[number]:
            return 0.0
        inside = producer is not None and consumer is not None and self.region[producer] is not None
        if inside and self.region[producer] == self.region[consumer]:
            return 0.0
        if source == HOME and destination == HOME:
            return 0.0
        self.paid[number].add(destination)
        undo.append((number, destination))
        return float(self.problem.transfer[number, source, destination])

    def is_valid(self):
        problem = self.problem
        for site, operators in self.regions:
            bounds = problem.sites[site].bounds
            if len(operators) < bounds.min_operators or not self.hangs_together(operators):
                return False
            if bounds.max_bytes is not None and self.bytes_of(operators) > bounds.max_bytes:
                return False
        candidates = list(self.candidate_of)
        units = [c if r is None else -1 - r for c, r in zip(candidates, self.region, strict=False)]
        return is_acyclic(problem, candidates) and is_acyclic(problem, units)

    def hangs_together(self, operators):
        members = set(operators)
        reached = {operators[0]}
        while True:
            more = {
                o
                for v in problem_edges(self.problem)
                for o, other in (v, v[::-1])
                if other in reached and o in members and o not in reached
            }
            if not more:
                return reached == members
            reached |= more

    def bytes_of(self, operators):
        """Weights, and the most bytes alive while one of *operators* runs."""
        problem = self.problem
        weights = sum(problem.candidates[c].bytes for c in {self.candidate_of[o] for o in operators})
        order = sorted(operators)
        most = 0
        for now in order:
            alive = 0
            for value in problem.values:
                readers = [c for c in value.consumers if c in operators]
                begun = value.producer <= now if value.producer in operators else bool(readers)
                leaves = value.producer in operators and (value.result or len(readers) < len(value.consumers))
                needed = leaves or value.producer == now or any(c >= now for c in readers) or value.weight
                alive += value.bytes if begun and needed else 0
            most = max(most, alive)
        return weights + most


def problem_edges(problem):
    return [(v.producer, c) for v in problem.values if v.producer is not None for c in v.consumers]


def is_acyclic(problem, unit):
    """Whether the graph has no cycle once operators of one unit are one node."""
    after = {u: set() for u in unit}
    for u, v in problem_edges(problem):
        if unit[u] != unit[v]:
            after[unit[u]].add(unit[v])
    while after:
        waited_for = set().union(*after.values())
        free = [u for u in after if u not in waited_for]
        if not free:
            return False
        for u in free:
            del after[u]
    return True
