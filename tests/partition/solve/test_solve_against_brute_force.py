"""Placements of random problems cost what the cheapest of all placements costs."""

import dataclasses
import math

import numpy as np
import pytest
from placement_brute_force import best_cost
from random_placements import random_problem

from byoc.errors import PartitionError
from byoc.partition.solve import solve
from byoc.partition.solve.evaluate import check, cost_of
from byoc.partition.solve.highs import is_available
from byoc.partition.solve.reduce import useful_candidates

pytestmark = pytest.mark.skipif(not is_available(), reason="needs scipy: the extra solve")


def agrees(problem):
    """Nothing is cheaper than what ``solve`` gives, which is valid and said to be best."""
    try:
        solution = solve(problem, time_limit=60)
    except PartitionError:
        assert best_cost(problem) is None
        return None
    check(problem, solution.chosen, solution.regions)
    cost = cost_of(problem, solution.chosen, solution.regions)
    assert (solution.seconds, solution.penalized) == (cost.seconds, cost.penalized)
    assert solution.gap == 0
    cheaper = best_cost(problem, solution.penalized * (1 - 1e-9))
    assert cheaper is None, (cheaper, solution)
    return solution.penalized


@pytest.mark.parametrize("part", range(4))
def test_the_cheapest_placement_is_found_on_small_random_problems(part):
    for seed in range(100 * part, 100 * part + 100):
        agrees(random_problem(seed, 7))


@pytest.mark.slow  # six to ten minutes, most of them the brute force's
def test_the_cheapest_placement_is_found_on_2000_random_problems_of_up_to_12_operators():
    found = [agrees(random_problem(seed, 12)) for seed in range(2000)]
    assert 50 < sum(cost is None for cost in found) < 200


def test_the_brute_force_agrees_with_itself_when_it_starts_from_nothing():
    for seed in range(60):
        problem = random_problem(seed, 6)
        cost = agrees(problem)
        found = best_cost(problem)
        assert (math.inf if cost is None else cost) == pytest.approx(math.inf if found is None else found[0])


def test_the_minimum_cut_costs_what_the_integer_program_and_the_brute_force_say():
    for seed in range(120):
        problem = random_problem(seed, 8, sites=2, patterns=False, launches=False, limits=False, self_transfers=False)
        cut = solve(problem)
        assert cut.method == "minimum cut" and cut.gap == 0
        assert cut.penalized == solve(problem, method="integer").penalized
        assert best_cost(problem, cut.penalized * (1 - 1e-9)) is None


def with_twin(problem, slower):
    """*problem* with one more site: a twin of site 1, all of whose candidates are *slower* by a second."""
    twin = len(problem.sites)
    first = dataclasses.replace(problem.sites[1], owner="vendor")
    sites = (problem.sites[0], first, *problem.sites[2:], dataclasses.replace(first, name="twin"))
    copies = [dataclasses.replace(c, site=twin, seconds=c.seconds + slower) for c in problem.candidates if c.site == 1]
    transfer = np.pad(problem.transfer, ((0, 0), (0, 1), (0, 1)))
    transfer[:, twin, :twin], transfer[:, :twin, twin] = transfer[:, 1, :twin], transfer[:, :twin, 1]
    transfer[:, twin, twin] = transfer[:, 1, 1]
    return dataclasses.replace(problem, sites=sites, candidates=(*problem.candidates, *copies), transfer=transfer)


@pytest.mark.parametrize("slower", [0, 1])
def test_a_site_that_another_replaces_is_left_out_and_nothing_is_cheaper_with_it(slower):
    for seed in range(80):
        problem = with_twin(random_problem(seed, 6), slower)
        usable = useful_candidates(problem)
        assert len(problem.sites) - 1 not in {problem.candidates[n].site for n in usable}
        agrees(problem)


def test_a_site_is_kept_where_a_tensor_or_a_call_is_faster_by_it():
    base = with_twin(random_problem(3, 6, limits=False), 0)
    twin = len(base.sites) - 1
    nearer = base.transfer.copy()
    nearer[:, 0, 1] += 1
    number = next(n for n, c in enumerate(base.candidates) if c.site == 1)
    slow = dataclasses.replace(base.candidates[number], seconds=base.candidates[number].seconds + 1)
    slower = (*base.candidates[:number], slow, *base.candidates[number + 1 :])
    for problem in (dataclasses.replace(base, transfer=nearer), dataclasses.replace(base, candidates=slower)):
        assert twin in {problem.candidates[n].site for n in useful_candidates(problem)}
        agrees(problem)


def test_bounds_are_below_the_cheapest_placement_and_the_heuristic_is_above():
    for seed in range(200):
        problem = random_problem(seed, 8, limits=False)
        quick, best = solve(problem, method="heuristic"), solve(problem, method="integer")
        assert quick.bound <= best.penalized * (1 + 1e-9) <= quick.penalized * (1 + 2e-9)
