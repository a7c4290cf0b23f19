"""Two sites, single operators, nothing to launch and no limits: a minimum cut, exact (Stone, "Multiprocessor
scheduling with the aid of network flow algorithms", IEEE TSE 3(1), 1977).

The home is the source's side. A tensor that several operators read is brought once: a node of its own stands for
"somebody there needs it". Capacities are integers, seconds times a power of two so large that rounding changes each by
less than 2**-58 of all seconds together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from byoc.partition.problem import HOME, Problem
from byoc.relay.transform.cut.minimum_cut import SINK, SOURCE, UNBOUNDED, Network

AWAY = 1


def is_a_cut(problem: Problem, usable: Sequence[int]) -> bool:
    """Whether a minimum cut gives the cheapest placement of *problem*."""
    if len(problem.sites) != 2 or any(len(problem.candidates[c].operators) > 1 for c in usable):
        return False
    away, bounds = problem.sites[AWAY], problem.sites[AWAY].bounds
    limited = bounds.max_operators is not None or bounds.max_bytes is not None or bounds.max_regions is not None
    return not (
        limited
        or bounds.min_operators > 1
        or away.launch + bounds.min_gain > 0
        or problem.transfer[:, AWAY, AWAY].any()
    )


def cheapest_cut(problem: Problem, usable: Sequence[int]) -> list[int]:
    """The candidates of the cheapest placement; of equally cheap ones the one with the fewest operators away."""
    fastest: dict[tuple[int, int], int] = {}
    for c in usable:
        candidate = problem.candidates[c]
        key = candidate.operators[0], candidate.site
        if key not in fastest or candidate.seconds < problem.candidates[fastest[key]].seconds:
            fastest[key] = c
    total = sum(problem.candidates[c].seconds for c in fastest.values()) + float(problem.transfer.sum())
    scale = 2.0 ** (58 - math.frexp(total)[1]) if total > 0 else 1.0
    network = Network()
    node = [network.add_node() for _ in range(problem.operators)]
    for o in range(problem.operators):
        for site, (start, end) in ((HOME, (node[o], SINK)), (AWAY, (SOURCE, node[o]))):
            # whoever stays on the source's side is at home: the edge to the sink is then cut, and pays for that
            best = fastest.get((o, site))
            cost = UNBOUNDED if best is None else round(problem.candidates[best].seconds * scale)
            network.add_edge(start, end, cost)
    for t, value in enumerate(problem.values):
        there, back = (round(float(problem.transfer[t, p, q]) * scale) for p, q in ((HOME, AWAY), (AWAY, HOME)))
        source = SOURCE if value.producer is None else node[value.producer]
        if there and value.consumers:
            needed = network.add_node()
            network.add_edge(source, needed, there)
            for consumer in value.consumers:
                network.add_edge(needed, node[consumer], UNBOUNDED)
        if back and value.producer is not None and (value.consumers or value.result):
            needed = network.add_node()
            network.add_edge(needed, source, back)
            for consumer in value.consumers:
                network.add_edge(node[consumer], needed, UNBOUNDED)
            if value.result:
                network.add_edge(SOURCE, needed, UNBOUNDED)
    away = network.sink_side()
    return sorted(fastest[o, AWAY if node[o] in away else HOME] for o in range(problem.operators))
