"""Regions: few, convex, without cycles, within limits."""

import random

import numpy as np
import pytest
from placement_brute_force import is_acyclic
from random_placements import random_problem

from byoc.errors import PartitionError
from byoc.partition.problem import Bounds, Candidate, Problem, ProblemValue, Site
from byoc.partition.solve import form_regions, solve
from byoc.partition.solve.evaluate import beyond, connected


def chain(count, bounds, weights=None, transfers=None, seconds=1.0):
    """A chain whose operators all run at an accelerator, far faster than at home."""
    values = [ProblemValue(k - 1 if k else None, (k,) if k < count else (), 1, k == count) for k in range(count + 1)]
    transfer = np.zeros((count + 1, 2, 2))
    transfer[:, 0, 1] = transfer[:, 1, 0] = 1.0
    transfer[1:, 1, 1] = 1.0 if transfers is None else transfers
    candidates = [Candidate(f"h{k}", (k,), 0, 1000.0 * seconds) for k in range(count)]
    candidates += [Candidate(f"a{k}", (k,), 1, seconds, weights[k] if weights else 0) for k in range(count)]
    sites = (Site("host", "cpu"), Site("npu", "npu", 1.0, bounds))
    return Problem(count, tuple(values), sites, tuple(candidates), transfer)


def random_choice(problem, r):
    """Random candidates of single operators."""
    singles = [[c for c in s if len(problem.candidates[c].operators) == 1] for s in problem.covering]
    return sorted(r.choice(s) for s in singles)


def holds(seed):
    problem = random_problem(seed, 40, patterns=False, limits=False)
    chosen = random_choice(problem, random.Random(seed))
    regions = form_regions(problem, chosen)
    where = {o: k for k, r in enumerate(regions) for c in r for o in problem.candidates[c].operators}
    units = [where.get(o, -1 - o) for o in range(problem.operators)]
    assert is_acyclic(problem, units)
    for region in regions:
        assert len({problem.candidates[c].site for c in region}) == 1
        assert connected([o for c in region for o in problem.candidates[c].operators], problem.edges)
    for u, v in problem.edges:  # no two regions that could be one are left apart
        a, b = units[u], units[v]
        if a != b and a >= 0 and b >= 0 and at(problem, regions, a) == at(problem, regions, b):
            assert not is_acyclic(problem, [a if k == b else k for k in units])


def at(problem, regions, region):
    return problem.candidates[regions[region][0]].site


def test_regions_of_random_choices_are_connected_convex_and_as_large_as_can_be():
    for seed in range(300):
        holds(seed)


@pytest.mark.slow  # two minutes
def test_regions_of_10000_random_choices_are_connected_convex_and_as_large_as_can_be():
    for seed in range(10_000):
        holds(seed)


@pytest.mark.parametrize("half", [1, 2, 5, 20])
def test_a_region_of_4n_plus_1_operators_becomes_parts_of_2n_plus_1_and_2n(half):
    problem = chain(4 * half + 1, Bounds(max_operators=2 * half + 1))
    for regions in (form_regions(problem, range(4 * half + 1, 8 * half + 2)), solve(problem).regions):
        assert sorted(map(len, regions)) == [2 * half, 2 * half + 1]


def fewest_parts(weights, most):
    """By dynamic programming over the ends of the parts of a chain: the fewest whose weights and two tensors fit."""
    best = [0] + [len(weights) + 1] * len(weights)
    for end in range(1, len(weights) + 1):
        for begin in range(end):
            if sum(weights[begin:end]) + 2 <= most:
                best[end] = min(best[end], best[begin] + 1)
    return best[-1]


def test_a_chain_is_split_into_the_fewest_parts_that_fit_where_the_cut_costs_least():
    for seed in range(60):
        r = random.Random(seed)
        weights = [r.randint(0, 9) for _ in range(r.randint(1, 25))]
        problem = chain(len(weights), Bounds(max_bytes=12), weights)
        regions = form_regions(problem, range(len(weights), 2 * len(weights)))
        assert len(regions) == fewest_parts(weights, 12)
        assert all(beyond(problem, [problem.candidates[c] for c in region]) is None for region in regions)


def test_a_split_falls_where_the_tensor_costs_least_to_bring():
    problem = chain(6, Bounds(max_operators=4), transfers=np.array([5, 5, 1, 5, 5, 5]))
    assert form_regions(problem, range(6, 12)) == ((6, 7, 8), (9, 10, 11))


def test_without_limits_nothing_is_split():
    problem = chain(500, Bounds())
    assert form_regions(problem, range(500, 1000)) == (tuple(range(500, 1000)),)


def test_an_operator_alone_over_the_limit_goes_home_and_a_note_says_so():
    problem = chain(3, Bounds(max_bytes=10), [1, 20, 1])
    solution = solve(problem)
    assert solution.chosen == (1, 3, 5)
    assert [n for n in solution.notes if "operator 1 is beyond the limits of npu on its own (22 bytes" in n]
    with pytest.raises(PartitionError, match="operator 1 at npu is in no region within the limits: 22 bytes"):
        form_regions(problem, range(3, 6))
