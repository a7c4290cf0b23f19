"""Random placement problems: graphs with fan-out and joins, overlapping candidates, launches, limits."""

from __future__ import annotations

import random

import numpy as np

from byoc.partition.problem import Bounds, Candidate, Problem, ProblemValue, Site


def random_problem(
    seed, most_operators=12, sites=None, patterns=True, launches=True, limits=True, self_transfers=True, home=0.9
):
    """A problem of 1 to *most_operators* operators; numbers are multiples of 1/8, so that sums are exact."""
    r = random.Random(seed)
    count = r.randint(1, most_operators)
    places = sites or r.randint(2, 3)
    together = random.Random(f"owner of {seed}").random() < 0.3
    values = _values(r, count)
    problem_sites = [Site("host", "cpu")]
    for p in range(1, places):
        launch = r.randint(0, 24) / 8 if launches and r.random() < 0.8 else 0.0
        bounds = _bounds(r, count) if limits and r.random() < 0.6 else Bounds()
        device = r.choice(["gpu", f"npu{p}", "cpu"])
        problem_sites.append(Site(f"site{p}", device, launch, bounds, "vendor" if together else ""))
    candidates = []
    for operator in range(count):
        weights = r.choice([0, 0, 4, 9])
        for p in range(places):
            if r.random() < (home if p == 0 else 0.7):
                candidates.append(Candidate(f"o{operator}", (operator,), p, r.randint(0, 40) / 8, weights))
        if not any(c.operators == (operator,) for c in candidates):
            somewhere = r.randrange(places)
            candidates.append(Candidate(f"o{operator}", (operator,), somewhere, r.randint(0, 40) / 8, weights))
    if patterns:
        candidates += _patterns(r, count, values, places)
    r.shuffle(candidates)
    transfer = np.zeros((len(values), places, places))
    for t in range(len(values)):
        for p in range(places):
            for q in range(places):
                if p != q:
                    transfer[t, p, q] = r.randint(0, 24) / 8
                elif p and self_transfers:
                    transfer[t, p, p] = r.choice([0, 0, 2, 9]) / 8
    weights = _shared_weights(seed, count)
    transfer = np.concatenate([transfer, np.zeros((len(weights), places, places))])
    return Problem(
        count,
        (*values, *weights),
        tuple(problem_sites),
        tuple(candidates),
        transfer,
        tuple(f"node{o}" for o in range(count)),
    )


def _values(r, count):
    reach = r.choice([2, 4, 12])
    read_by = {}
    for operator in range(count):
        for _ in range(r.choice([1, 1, 1, 2, 2, 3])):
            source = r.randint(max(-1, operator - reach), operator - 1)
            read_by.setdefault(source, set()).add(operator)
    values = []
    for source in range(-1, count):
        readers = sorted(read_by.get(source, ()))
        if source == -1 and not readers:
            continue
        producer = None if source < 0 else source
        if readers and producer is not None and r.random() < 0.1:  # an operator with two results
            cut = r.randint(0, len(readers))
            values.append(ProblemValue(producer, tuple(readers[cut:]), r.randint(0, 9), r.random() < 0.3))
            readers = readers[:cut]
        values.append(
            ProblemValue(
                producer, tuple(readers), r.randint(0, 9), producer is not None and (not readers or r.random() < 0.1)
            )
        )
    return values


def _shared_weights(seed, count):
    r = random.Random(f"weights of {seed}")
    readers = [sorted(r.sample(range(count), r.randint(2, 3))) for _ in range(r.choice([0, 0, 1, 2])) if count > 2]
    return [ProblemValue(None, tuple(read), r.randint(1, 12), weight=True) for read in readers]


def _bounds(r, count):
    def maybe(value, share=0.4):
        return value if r.random() < share else None

    return Bounds(
        maybe(r.randint(1, max(1, count // 2 + 1))),
        maybe(r.randint(5, 40)),
        maybe(r.randint(0, 3)),
        r.choice([1, 1, 1, 2, 3]),
        r.choice([0, 0, 1, 6]) / 8,
    )


def _patterns(r, count, values, places):
    neighbours = {o: set() for o in range(count)}
    for value in values:
        for consumer in value.consumers:
            if value.producer is not None:
                neighbours[value.producer].add(consumer)
                neighbours[consumer].add(value.producer)
    found = []
    for number in range(r.randint(0, count)):
        members = {r.randrange(count)}
        for _ in range(r.randint(1, 3)):
            more = sorted(set().union(*(neighbours[m] for m in members)) - members)
            if more:
                members.add(r.choice(more))
        if len(members) > 1:
            found.append(
                Candidate(
                    f"p{number}",
                    tuple(sorted(members)),
                    r.randrange(places),
                    r.randint(0, 20 * len(members)) / 8,
                    r.choice([0, 5, 12]),
                )
            )
    return found
