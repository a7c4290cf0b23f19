"""Schedules with overlap."""

import itertools

import numpy as np
import pytest
from random_placements import random_problem

from byoc.errors import InternalError, PartitionError
from byoc.partition.problem import Candidate, Problem, ProblemValue, Site
from byoc.partition.solve import solve
from byoc.partition.solve.evaluate import check
from byoc.partition.solve.makespan import SMALL
from byoc.partition.solve.schedule import shortest_possible, shortest_time


def two_branches(device):
    """Two operators of 4 seconds that read the input, and one of a second that joins them; the site takes 5."""
    values = (ProblemValue(None, (0, 1)), ProblemValue(0, (2,)), ProblemValue(1, (2,)), ProblemValue(2, (), 0, True))
    candidates = [Candidate(f"h{o}", (o,), 0, s) for o, s in enumerate((4.0, 4.0, 1.0))]
    candidates += [Candidate(f"a{o}", (o,), 1, 5.0) for o in range(2)]
    transfer = np.zeros((4, 2, 2))
    return Problem(3, values, (Site("host", "cpu"), Site("acme", device)), tuple(candidates), transfer)


def test_branches_on_two_devices_overlap_where_that_is_shorter():
    problem = two_branches("npu")
    assert solve(problem).seconds == 9
    overlapped = solve(problem, objective="makespan")
    assert (overlapped.seconds, overlapped.gap) == (6, 0)


def test_sites_of_one_device_do_not_overlap():
    assert solve(two_branches("cpu"), objective="makespan").seconds == 9


def shortest_of_all_orders(problem, chosen, regions):
    """The penalized makespan of one placement, every order of its jobs tried."""
    jobs = [*regions, *((c,) for c in chosen if problem.candidates[c].site == 0)]
    sites = [problem.candidates[job[0]].site for job in jobs]
    job_of = {o: j for j, job in enumerate(jobs) for c in job for o in problem.candidates[c].operators}
    least = float("inf")

    def seconds(job):
        site = problem.sites[sites[job]]
        launch = site.launch + site.bounds.min_gain if sites[job] else 0.0
        return launch + sum(problem.candidates[c].seconds for c in jobs[job])

    def go_on(ends, free, last):
        nonlocal least
        if len(ends) == len(jobs):
            least = min(least, last)
        for job in set(range(len(jobs))) - ends.keys():
            start, device = free.get(problem.sites[sites[job]].device, 0.0), problem.sites[sites[job]].device
            home = 0.0
            for t, value in enumerate(problem.values):
                maker = None if value.producer is None else job_of[value.producer]
                if maker != job and job in {job_of[c] for c in value.consumers}:
                    if maker is not None and maker not in ends:
                        break
                    source = 0 if maker is None else sites[maker]
                    start = max(start, ends.get(maker, 0.0) + problem.transfer[t, source, sites[job]])
                if maker == job and value.result:
                    home = max(home, problem.transfer[t, sites[job], 0])
            else:
                end = start + seconds(job)
                go_on({**ends, job: end}, {**free, device: end}, max(last, end + home))

    go_on({}, {}, 0.0)
    return least


def every_makespan(problem):
    """The shortest schedules of all placements: all covers, all partitions of what is away."""
    options = [[c for c in s if len(problem.candidates[c].operators) == 1] for s in problem.covering]
    for chosen in itertools.product(*options):
        away = [c for c in chosen if problem.candidates[c].site]
        for labels in itertools.product(range(len(away)), repeat=len(away)):
            regions = [tuple(c for c, k in zip(away, labels, strict=False) if k == r) for r in sorted(set(labels))]
            try:
                check(problem, sorted(chosen), regions)
            except InternalError:
                continue
            yield shortest_of_all_orders(problem, sorted(chosen), regions)


def test_small_schedules_are_the_shortest_of_all():
    for seed in range(60):
        problem = random_problem(seed, 4, patterns=False)
        shortest = min(every_makespan(problem), default=None)
        try:
            solution = solve(problem, objective="makespan")
        except PartitionError:
            assert shortest is None
            continue
        assert solution.penalized == shortest and solution.gap == 0


def test_the_order_of_jobs_is_the_shortest_and_not_a_list():
    """Of two operators at home the shorter one comes first, since two of the other device wait for it."""
    values = (
        ProblemValue(None, (0, 1, 2)),
        ProblemValue(1, (2, 3, 4)),
        ProblemValue(0, (3,)),
        ProblemValue(2, (), 0, True),
        ProblemValue(3, (), 0, True),
        ProblemValue(4, (), 0, True),
    )
    work = [(0, 12.0), (0, 6.0), (1, 47.0), (0, 74.0), (1, 46.0)]
    candidates = tuple(Candidate(f"o{o}", (o,), site, seconds) for o, (site, seconds) in enumerate(work))
    sites = (Site("host", "cpu"), Site("acme", "npu"))
    problem = Problem(5, values, sites, candidates, np.zeros((len(values), 2, 2)))
    found = shortest_time(problem, range(5), ((2,), (4,)))
    assert found == 6 + 47 + 46 == shortest_of_all_orders(problem, range(5), [(2,), (4,)])
    assert shortest_time(problem, range(5), ((2,), (4,)), within=90.0) >= found


def test_the_bound_on_schedules_is_below_the_shortest():
    for seed in range(80):
        problem = random_problem(seed, 6, limits=False)
        found = solve(problem, objective="makespan")
        assert found.gap == 0
        assert shortest_possible(problem, problem.covering) <= found.penalized


def test_larger_problems_get_a_schedule_and_a_bound_below_it():
    for seed in range(5):
        problem = random_problem(seed, 60, limits=False)
        found = solve(problem, objective="makespan", time_limit=1)
        check(problem, found.chosen, found.regions)
        assert found.bound <= found.penalized
        if problem.operators > SMALL:
            assert found.penalized <= solve(problem, method="heuristic").penalized


@pytest.mark.parametrize("seed", range(3))
def test_a_chain_takes_what_its_parts_take(seed):
    problem = random_problem(seed, 1, launches=False, limits=False)
    solution = solve(problem, objective="makespan")
    assert 0 <= solution.penalized <= solve(problem).penalized + 1e-12
