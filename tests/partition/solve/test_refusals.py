"""Numbers that are none, and limits that nothing keeps: one sentence each."""

import dataclasses
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from random_placements import random_problem

from byoc.errors import PartitionError
from byoc.partition.problem import Bounds, Candidate, Problem, ProblemValue, Site
from byoc.partition.solve import highs, solve, solver


def one_operator(seconds=1.0, bounds=None, home=True, transfer=1.0):
    candidates = (Candidate("conv", (0,), 1, seconds, 8),) + ((Candidate("conv", (0,), 0, 2.0),) if home else ())
    values = (ProblemValue(None, (0,), 4), ProblemValue(0, (), 4, True))
    moves = np.full((2, 2, 2), transfer)
    moves[:, 0, 0] = 0
    sites = (Site("host", "cpu"), Site("acme", "npu", 0.0, bounds or Bounds()))
    return Problem(1, values, sites, candidates, moves, ("Conv_7",))


@pytest.mark.parametrize("seconds", [-1.0, math.nan, math.inf])
def test_a_cost_that_is_no_time_is_refused_with_operator_and_place(seconds):
    with pytest.raises(PartitionError, match=rf"Conv_7 as conv at acme costs {seconds} seconds"):
        solve(one_operator(seconds))


def test_a_transfer_that_is_no_time_is_refused_with_its_ends():
    with pytest.raises(PartitionError, match="bringing an input of the model from host to acme costs nan seconds"):
        solve(one_operator(transfer=math.nan))


def test_a_launch_that_is_no_time_is_refused():
    problem = one_operator()
    sites = (problem.sites[0], dataclasses.replace(problem.sites[1], launch=-1.0))
    with pytest.raises(PartitionError, match="a launch at acme is -1.0 seconds"):
        solve(dataclasses.replace(problem, sites=sites))


def test_an_operator_without_a_place_is_named():
    problem = dataclasses.replace(one_operator(), candidates=())
    with pytest.raises(PartitionError, match="Conv_7 has no place where it can run"):
        solve(problem)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Bounds(max_bytes=3), "at most 3 bytes a region"),
        (Bounds(min_operators=2), "at least 2 operators a region"),
        (Bounds(max_regions=0), "at most 0 regions"),
        (Bounds(max_operators=0), "at most 0 operators a region"),
    ],
)
@pytest.mark.parametrize("objective", ["latency", "makespan"])
def test_limits_that_nothing_keeps_are_reported_with_the_operator(bounds, words, objective):
    with pytest.raises(PartitionError, match=rf"Conv_7 cannot run at the host.*acme: {words}"):
        solve(one_operator(bounds=bounds, home=False), objective=objective)


@pytest.mark.parametrize("method", solver.METHODS)
def test_a_problem_without_operators_has_a_solution(method):
    problem = Problem(0, (), (Site("host", "cpu"), Site("acme", "npu")), (), np.zeros((0, 2, 2)))
    solution = solve(problem, method=method)
    assert (solution.chosen, solution.regions, solution.seconds, solution.gap) == ((), (), 0.0, 0.0)


def test_an_unknown_objective_or_method_is_reported_with_those_that_are():
    with pytest.raises(PartitionError, match="objective 'speed' is unknown; there are latency, makespan"):
        solve(one_operator(), objective="speed")
    with pytest.raises(PartitionError, match="method 'magic' is unknown; there are auto"):
        solve(one_operator(), method="magic")


def test_without_scipy_the_heuristic_answers_with_the_bound_of_the_relaxation(monkeypatch):
    problem = random_problem(6, 12)
    best = solve(problem)
    monkeypatch.setattr(solver, "is_available", lambda: False)
    solution = solve(problem)
    assert (best.method, solution.method) == ("integer program", "heuristic")
    assert 0 < solution.bound < best.penalized <= solution.penalized
    assert any("byoc-compiler[solve]" in note for note in solution.notes)
    assert highs.is_available() is not None


def test_a_start_is_never_made_worse():
    problem = random_problem(11, 12)
    best = solve(problem)
    assert solve(problem, method="heuristic", start=best).penalized == best.penalized


SOLVE_SOME = """
import sys
sys.path.insert(0, sys.argv[1])
from random_placements import random_problem
from byoc.errors import PartitionError
from byoc.partition.solve import solve
for seed in range(12):
    for method in ("auto", "heuristic"):
        try:
            print(solve(random_problem(seed, 10), method=method))
        except PartitionError as error:
            print(error)
"""


def test_solutions_do_not_depend_on_the_hash_seed():
    folder = os.path.dirname(__file__)
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SOLVE_SOME, folder],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1 and "Solution" in outputs.pop()
